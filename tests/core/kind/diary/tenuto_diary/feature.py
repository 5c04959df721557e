"""What diary adds to the core."""

from tenuto.feature import Feature
from tenuto_client.commands import Command

FEATURE = Feature(
    name="diary",
    package="tenuto_diary",
    settings=".settings:DiarySettings",
    starting=".pages:begin",
    routes=".pages:routes",
    duties=".pages:duties",
    observe=".pages:observe",
    commands={"admin diary": Command("Print the diary.", "tenuto_diary.pages", after="recover")},
    erase=".pages:erase",
)
