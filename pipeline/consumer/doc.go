// Package consumer reads what a job puts out: its predictions (Predictions) and
// its dead letters (DeadLetters), in the order in which they are stored, from
// any message on, and then as they come.
//
// It changes nothing and needs no stage. Package codec decodes predictions;
// package admin lists dead letters and sends them again.
package consumer
