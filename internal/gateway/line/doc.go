// Package line receives Influx line protocol over TCP and UDP for a gateway, without
// acknowledgements: package gateway documents the possible losses.
//
// # Files
//
//   - tcp.go: accepts lines over TCP
//   - udp.go: accepts lines over UDP
//   - reader.go: cuts a connection into lines
//   - http.go: recognizes HTTP requests
//   - unseen_linux.go, unseen_other.go: count packets that the system dropped
package line
