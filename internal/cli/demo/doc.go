// Package demo is the command "demo": simulate, train, stream and predict, and compare every live prediction with the
// offline prediction.
//
// # Files
//
//   - demo.go: defines the command demo and prepares model and data
//   - live.go: runs server, stage, replay and reader in one process
//   - result.go: compares live predictions with the offline evaluation
package demo
