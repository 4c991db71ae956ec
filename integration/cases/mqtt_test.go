package cases

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// mqttConnect is the first message of a device.
type mqttConnect struct {
	id     string
	level  byte // 4: MQTT 3.1.1; 5
	will   string
	retain bool
}

// mqttAnswer is the broker's answer.
type mqttAnswer struct {
	code       byte
	closed     bool
	properties []byte
}

func mqttText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func mqttPacket(kind byte, body []byte) []byte {
	b := []byte{kind}
	for n := len(body); ; {
		c := byte(n & 127)
		if n >>= 7; n == 0 {
			return append(append(b, c), body...)
		}
		b = append(b, c|128)
	}
}

func readPacket(r *bufio.Reader) (kind byte, body []byte, err error) {
	if kind, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n := 0
	for shift := 0; ; shift += 7 {
		c, err := r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		n |= int(c&127) << shift
		if c < 128 {
			break
		}
	}
	body = make([]byte, n)
	_, err = io.ReadFull(r, body)
	return kind, body, err
}

func (c mqttConnect) encodePacket() []byte {
	flags := byte(2) // a clean session
	if c.will != "" {
		flags |= 4 | 1<<3
	}
	if c.retain {
		flags |= 1 << 5
	}
	b := append(mqttText(nil, "MQTT"), c.level, flags, 0, 60)
	if c.level == 5 {
		b = append(b, 0)
	}
	b = mqttText(b, c.id)
	if c.will != "" {
		if c.level == 5 {
			b = append(b, 0)
		}
		b = mqttText(mqttText(b, c.will), "Offline")
	}
	return mqttPacket(0x10, b)
}

func openMQTT(t *testing.T, address string, c mqttConnect) (net.Conn, *bufio.Reader, mqttAnswer) {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience / 2))
	nc.Write(c.encodePacket())
	r := bufio.NewReader(nc)
	_, body, err := readPacket(r)
	if err != nil || len(body) < 2 {
		return nc, r, mqttAnswer{closed: true}
	}
	return nc, r, mqttAnswer{code: body[1], properties: body[2:]}
}

func connectMQTT(t *testing.T, address string, c mqttConnect) mqttAnswer {
	t.Helper()
	nc, _, a := openMQTT(t, address, c)
	nc.Close()
	return a
}

// limits are the answers to an MQTT 5 device with too large messages.
type limits struct {
	size, retain bool // CONNACK has the maximum packet size, and whether retained messages are accepted
	reason       byte // of the DISCONNECT
	code         byte // of the CONNACK
}

// sendLarge sends 16,000 samples in one message.
func (r *rig) sendLarge(t *testing.T, level byte) (is limits) {
	t.Helper()
	nc, in, a := openMQTT(t, addressOf(22110), mqttConnect{id: "large", level: level})
	is.code = a.code
	is.size, is.retain = hasProperty(a.properties, 0x27), hasProperty(a.properties, 0x25)
	b := mqttText(nil, "sensors/big")
	b = binary.BigEndian.AppendUint16(b, 1)
	if level == 5 {
		b = append(b, 0)
	}
	m := `{"c0":0.5,"c1":1}`
	nc.Write(mqttPacket(0x32, append(b, "["+strings.Repeat(m+",", 15999)+m+"]"...)))
	if kind, body, err := readPacket(in); err == nil && kind == 0xe0 && len(body) > 0 {
		is.reason = body[0]
	}
	return is
}

// hasProperty reports whether the properties of a CONNACK contain id.
func hasProperty(b []byte, id byte) bool {
	if len(b) == 0 {
		return false
	}
	for b = b[1:]; len(b) > 0; {
		if b[0] == id {
			return true
		}
		n := 0
		switch b[0] {
		case 0x24, 0x25, 0x28, 0x29, 0x2a:
			n = 1
		case 0x21, 0x22, 0x13:
			n = 2
		case 0x11, 0x27:
			n = 4
		case 0x12, 0x1a, 0x1c, 0x1f:
			n = 2 + int(binary.BigEndian.Uint16(b[1:]))
		default:
			return false
		}
		b = b[min(1+n, len(b)):]
	}
	return false
}
