// Where the studio begins: language, theme and session first, so that nothing is shown twice.
import { mount } from 'svelte'
import App from './App.svelte'
import './app.css'
import { firstLanguage, speak } from './lib/i18n.svelte.ts'
import { follow } from './lib/router.svelte.ts'
import { firstTheme, wear } from './lib/theme.svelte.ts'
import { explainFields } from './lib/validation.ts'

wear(firstTheme())
await speak(firstLanguage())
follow()
explainFields()
const place = document.getElementById('studio')!
place.replaceChildren() // Removes the message for readers whose scripts did not load.
mount(App, { target: place })
