// Package demo is "demo": it simulates, trains, streams and predicts, and compares
// every live prediction with the offline one.
//
// # Files
//
//   - demo.go: defines the command demo and prepares model and data
//   - live.go: runs server, stage, replay and reader in one process
//   - result.go: compares live predictions with the offline evaluation
package demo
