// Package natsserver runs a NATS server with a JetStream file store inside the
// program, for a machine that has none. It owns the data directory: its lock,
// its permissions, and the repair of what an interrupted server left half
// written there (Repair).
//
// It knows no job and no stage. Clients use it like any other server: in the
// process (Server.Connect) or by its address (Server.URL, package natsclient).
package natsserver
