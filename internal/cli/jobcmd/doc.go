// Package jobcmd holds the commands that look at a job or change it as a whole
// (partitions, state, deadletter, job), and the one that looks at what a job needs
// (doctor).
package jobcmd
