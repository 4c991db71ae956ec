// Package models reads and prints model files, for "model" and for every command
// that takes one.
package models
