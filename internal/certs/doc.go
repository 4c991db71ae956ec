// Package certs creates the certificates of one plant: a private authority, and server
// certificates signed by this authority. Keys are ECDSA on P-256, supported by every TLS
// library of the last ten years. The package writes no files.
//
// It also reads the certificates of a process: it rereads changed files (Files), and reads
// expiry times (Watch).
//
// # Files
//
//   - certs.go: creates the authority and server certificates
//   - files.go: reads the certificate of a listener and rereads changed files
//   - tls.go: configures TLS of clients and listeners from PEM files
//   - watch.go: warns before a certificate expires
package certs
