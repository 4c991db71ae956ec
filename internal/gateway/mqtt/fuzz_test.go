package mqtt

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// FuzzConnection sends arbitrary bytes after a CONNECT of each version to a running gateway.
// The connection ends when the device closes it, its remains are limited, and another device
// still works.
func FuzzConnection(f *testing.F) {
	message := mqttString("plant/A/sensor/7")
	for _, s := range []string{
		"",
		"\xc0\x00\xe0\x00",
		makePacket(0x30, message+"1"),
		makePacket(0x32, message+"\x00\x01"+"1") + makePacket(0x3a, message+"\x00\x01"+"1"),
		makePacket(0x34, message+"\x00\x02"+"1") + makePacket(0x62, "\x00\x02") + makePacket(0x62, "\x00\x03"),
		makePacket(0x32, message+"\x00\x01\x00"+"1") + makePacket(0x32, message+"\x00\x02\x03\x23\x00\x01"+"1"),
		makePacket(0x82, "\x00\x01"+mqttString("spBv1.0/+/NCMD/n/#")+"\x00") + makePacket(0xa2, "\x00\x02"+mqttString("#")),
		makePacket(0x82, "\x00\x01\x00"+mqttString("$share/g/#")+"\x02") + makePacket(0x10, mqttString("MQTT")+"\x04\x02\x00\x3c"+mqttString("d")),
		makePacket(0x31, message+"1") + makePacket(0x40, "\x00\x01") + makePacket(0x50, "\x00\x01") + makePacket(0x70, "\x00\x01"),
		makePacket(0xf0, "\x18\x00") + "\x30\xff\xff\xff\x7f",
		makePacket(0xe0, "\x04\x05\x11\x00\x00\x00\x10"),
		"\x30\xff\xff\xff\xff\x01",
	} {
		for kind := range byte(4) {
			f.Add(kind, []byte(s))
		}
	}
	r := newRig(f)
	r.maxIdleSessions = 8
	addr := "127.0.0.1:0"
	g, _ := r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	other := dialWire(f, addr)
	other.request(0x20, connectPacket("other", true))
	connects := []string{connectPacket("f4", true), connectPacket("f4", false),
		makePacket(0x10, mqttString("MQTT")+"\x05\x02\x00\x3c\x00"+mqttString("f5")), makePacket(0x10, mqttString("MQTT")+"\x05\x00\x00\x3c\x05\x11\x00\x00\x00\x3c"+mqttString("f5"))}
	f.Fuzz(func(t *testing.T, kind byte, rest []byte) {
		w := dialWire(t, addr)
		w.request(0x20, connects[int(kind)%len(connects)])
		go func() {
			w.c.Write(rest)
			w.c.(*net.TCPConn).CloseWrite()
		}()
		if _, err := io.Copy(io.Discard, w.c); err != nil && isTimeout(err) {
			t.Error("the connection does not end")
		}
		other.c.SetDeadline(time.Now().Add(pipelinetest.Patience))
		other.t = t
		other.request(0xd0, "\xc0\x00")
		if n := r.server.Clients.Len(); n > 16 {
			t.Errorf("%d clients are left", n)
		}
		if n := g.Stats().OutboxBytes; n > 1<<20 {
			t.Errorf("the outbox has %d bytes", n)
		}
	})
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}
