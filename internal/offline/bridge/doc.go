// Package bridge passes functions of package offline to the program's own packages. Parameters and results have types
// of internal packages, which an importable package must not show. Package offline, which cannot be imported here,
// sets each function when a program starts.
//
// # Files
//
//   - bridge.go: declares the functions
//   - sequences.go: defines sequences with known features
package bridge
