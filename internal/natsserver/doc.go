// Package natsserver runs a NATS server with a JetStream file store inside the
// program, for a machine that has none. It owns the data directory: its lock,
// its permissions, and the repair of what an interrupted server left half
// written there (Repair).
//
// It knows no job and no stage. Clients use it like any other server: in the
// process (Server.Connect) or by its address (Server.URL, package natsclient).
//
// # Files
//
//   - server.go: starts the embedded server and locks its directory
//   - door.go: configures addresses, TLS and users
//   - hub.go: connects the server to a central server
//   - log.go: filters the log of the server; detects a failed store
//   - repair.go: repairs lost checksums in the store of the server
package natsserver
