// Package demo is "demo": it simulates, trains, streams and predicts, and compares
// every live prediction with the offline one.
package demo
