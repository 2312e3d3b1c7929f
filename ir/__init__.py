"""What is computed: the language of recurrences, their normal form, the forms derived from it, and the float64
oracle."""
