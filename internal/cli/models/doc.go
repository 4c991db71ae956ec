// Package models reads and prints model files, for "model" and for all commands with a model.
//
// # Files
//
//   - models.go: defines the commands model and model show; loads models
//   - verify.go: defines the command model verify
//   - export.go: defines the command model export
//   - front.go: describes a front end in words
//   - modes.go: describes how long the states of a network remember
package models
