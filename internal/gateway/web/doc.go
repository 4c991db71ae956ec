// Package web receives messages over HTTP for a gateway. The answer 204 is sent after the NATS
// server has acknowledged the message.
//
// # Files
//
//   - server.go: serves requests with samples
//   - body.go: reads bodies and closes slow requests
//   - influx.go: answers as InfluxDB does
package web
