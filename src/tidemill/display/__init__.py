"""How values are shown to people, in the same words by the commands and on the page. Pure: time is an argument."""
