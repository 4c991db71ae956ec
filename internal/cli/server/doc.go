// Package server connects commands to a job's NATS server: it converts the stage's
// configuration for the libraries, opens the server, and explains the errors of a refused login
// and an unknown job.
//
// # Files
//
//   - broker.go: starts the embedded NATS server or connects to a configured server
//   - find.go: finds the server of a command: configured, of a running stage, or stored
//   - context.go: reads the selected context of the nats command
//   - model.go: loads the model of a job, from its registry
//   - commands.go: defines the base of commands that connect to the server of a job
//   - changing.go: says what completes a change of a job
//   - config.go: converts the configuration for package pipeline and the NATS client
//   - refused.go: reports the rights that a login lacks
//   - answer.go: answers status questions; lists the certificates of a process
package server
