// Package line takes Influx line protocol over TCP and UDP for a gateway. There
// is no acknowledgement: the documentation of package gateway says what may be
// lost.
//
// # Files
//
//   - tcp.go: accepts lines over TCP
//   - udp.go: accepts lines over UDP
//   - reader.go: cuts a connection into lines
//   - http.go: recognizes HTTP requests
//   - unseen_linux.go, unseen_other.go: count packets that the system dropped
package line
