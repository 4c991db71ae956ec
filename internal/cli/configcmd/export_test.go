package configcmd

// What tests of the whole program also look into.
const MaxConfig = maxConfig
