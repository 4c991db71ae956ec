// Package server is the way of the commands to a job's NATS server: the configuration
// of the stage as the libraries have it, the server that it names, and what a command
// says where the server refuses it or the job is not there.
//
// # Files
//
//   - broker.go: starts the embedded NATS server or connects to a configured server
//   - commands.go: defines the base of commands that connect to the server of a job
//   - config.go: converts the configuration for package pipeline and the NATS client
//   - refused.go: reports the rights that a login lacks
//   - answer.go: answers status questions; lists the certificates of a process
package server
