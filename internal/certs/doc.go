// Package certs makes the certificates of one plant: an authority of its own,
// and server certificates that it signs. Keys are ECDSA on P-256, which every
// TLS library of the last ten years knows. It writes no files.
//
// It also reads the certificates that a process uses: again when their files change (Files),
// and when they end (Watch).
//
// # Files
//
//   - certs.go: creates the authority and server certificates
//   - files.go: reads the certificate of a listener and rereads changed files
//   - tls.go: configures TLS of clients and listeners from PEM files
//   - watch.go: warns before a certificate expires
package certs
