package mqtt

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// mqttText encodes a text for MQTT.
func mqttText(s string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...)
}

// mqttPacket returns a packet with a first byte.
func mqttPacket(first byte, parts ...[]byte) []byte {
	body := slices.Concat(parts...)
	p := []byte{first}
	for n := len(body); ; {
		c := byte(n & 0x7f)
		if n >>= 7; n == 0 {
			return append(append(p, c), body...)
		}
		p = append(p, c|0x80)
	}
}

// connectWith dials, sends a CONNECT of a protocol level and returns the CONNACK.
func connectWith(t *testing.T, addr, id string, level, flags byte, rest ...[]byte) (net.Conn, []byte) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(pipelinetest.Patience))
	properties := []byte(nil)
	if level == 5 {
		properties = []byte{0}
	}
	if _, err := c.Write(mqttPacket(0x10, mqttText("MQTT"), []byte{level, flags, 0, 60}, properties, mqttText(id), slices.Concat(rest...))); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 2)
	if _, err := io.ReadFull(c, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, head[1])
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatal(err)
	}
	return c, body
}

// A CONNACK announces the size limit of packets and refuses retained messages. A packet over
// the limit is counted and logged, and MQTT 5 devices get the reason why their connection ends.
func TestPacketTooLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, _ := r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	const limit = 1 << 16
	for i, level := range []byte{4, 5} {
		c, connack := connectWith(t, addr, "d", level, 2)
		if level == 5 {
			for _, property := range [][]byte{binary.BigEndian.AppendUint32([]byte{0x27}, limit), {0x25, 0}} {
				if !bytes.Contains(connack, property) {
					t.Errorf("the CONNACK % x lacks % x", connack, property)
				}
			}
		} else if !bytes.Equal(connack, []byte{0, 0}) {
			t.Errorf("the CONNACK is % x, want success", connack)
		}
		properties := []byte{0}[:int(level)-4]
		ok := mqttPacket(0x32, mqttText("plant/A/sensor/7"), []byte{0, 1}, properties, []byte("1"))
		c.Write(ok)
		c.Write(mqttPacket(0x32, mqttText("plant/A/sensor/7"), []byte{0, 2}, properties, make([]byte, 2*limit)))
		got, err := io.ReadAll(c)
		if level == 5 && (err != nil || !bytes.Contains(got, []byte{0x95}) || !bytes.Contains(got, []byte("65536 bytes"))) {
			t.Errorf("level %d: % x (%v), want a DISCONNECT with the reason", level, got, err)
		}
		pipelinetest.Until(t, "the packet is counted", func() bool { return g.Stats().Refused["mqtt"] == uint64(i+1) })
	}
	if r.book.Lines("a packet of more than 65536 bytes") == 0 {
		t.Errorf("the log does not report it:\n%s", &r.book)
	}
}

// A device with a retained will can connect. A refused device gets a return code of its MQTT
// version, and the log reports the refusal.
func TestWillAndReturnCodes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	addr := "127.0.0.1:0"
	g, _ := r.startGateway(r.brokerInput(&addr, gateway.Access{}))
	will := slices.Concat(mqttText("plant/A/sensor/LWT"), mqttText("Offline"))
	for _, level := range []byte{4, 5} {
		properties := []byte{0}[:int(level)-4]
		c, connack := connectWith(t, addr, "d", level, 2|4|32, properties, will)
		if connack[1] != 0 {
			t.Errorf("level %d: the CONNACK is % x, want success", level, connack)
		}
		c.Close()
	}
	if n := g.Stats().Refused["mqtt"]; n != 0 {
		t.Errorf("%d refused, want none", n)
	}
	if _, connack := connectWith(t, addr, "", 4, 0); !bytes.Equal(connack, []byte{0, 2}) {
		t.Errorf("without an id and with a session: % x, want return code 2", connack)
	}
	pipelinetest.Until(t, "the log reports it", func() bool { return r.book.Lines("cannot connect") == 1 })
}
