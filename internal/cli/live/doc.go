// Package live holds the commands of the live stage: run, and what feeds it and reads
// from it (replay, gateway, tail); and backfill, which predicts beside it.
package live
