// Package natsserver runs a NATS server with a JetStream file store inside the program, for a
// machine without a NATS server. It owns the data directory: its lock, its permissions, and its
// repair after an interruption (Repair).
//
// The package is independent of jobs and stages. Clients use the server like any other: inside
// the process (Server.Connect) or by address (Server.URL, package natsclient).
//
// # Files
//
//   - server.go: starts the embedded server and locks its directory
//   - door.go: configures addresses, TLS and users
//   - hub.go: connects the server to a central server
//   - note.go: writes the address of the server into its directory, for other processes
//   - log.go: filters the log of the server; detects a failed store
//   - repair.go: repairs lost checksums in the store of the server
package natsserver
