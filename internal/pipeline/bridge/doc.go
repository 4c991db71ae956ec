// Package bridge passes functions of package pipeline to the program's own packages: to operate and replay, and to
// the commands. Parameters and results have types of internal packages, which an importable package must not show.
// Package pipeline, which cannot be imported here, sets each function when a program starts.
//
// # Files
//
//   - bridge.go: declares the functions
package bridge
