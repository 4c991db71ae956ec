// Package inlog serves programs that read a job's input without taking part in the job:
// the messages in order (Log), and an exclusive lock on output files (Lock). It
// publishes nothing, and creates nothing on the server except a consumer in memory.
package inlog
