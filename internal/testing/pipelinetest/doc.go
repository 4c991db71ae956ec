// Package pipelinetest is what tests that need a NATS server share: the server,
// connections to it, logs, and errors that must name things. Servers are real
// ones (package natsserver): nothing here imitates NATS.
//
// No product code imports it. It imports no stage, so that the tests inside
// package pipeline can use it.
package pipelinetest
