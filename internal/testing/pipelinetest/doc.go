// Package pipelinetest holds the shared parts of tests with a NATS server: the server,
// connections, logs, and checks of error texts. Servers are real servers (package
// natsserver): nothing here imitates NATS.
//
// No product code imports the package. The package imports no stage, because tests inside
// package pipeline import it.
package pipelinetest
