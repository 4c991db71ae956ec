// Package server is the way of the commands to a job's NATS server: the configuration
// of the stage as the libraries have it, the server that it names, and what a command
// says where the server refuses it or the job is not there.
package server
