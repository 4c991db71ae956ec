// Package line takes Influx line protocol over TCP and UDP for a gateway. There
// is no acknowledgement: the documentation of package gateway says what may be
// lost.
package line
