package config

// MaxConfig is what a test of the whole program also looks into.
const MaxConfig = maxConfig
