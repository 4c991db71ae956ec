// Package models reads and prints model files, for "model" and for all commands with a model.
//
// # Files
//
//   - models.go: defines the commands model, model show and model verify; loads models
//   - export.go: defines the command model export
//   - front.go: describes a front end in words
//   - modes.go: describes how long the states of a network remember
package models
