// Nothing is preprocessed: Svelte itself leaves out the types.
export default {}
