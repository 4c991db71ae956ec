package configcmd

// Exports for the tests of the whole program.
const MaxConfig = maxConfig
