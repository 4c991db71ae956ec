package wire

import "testing"

// TestCRC: the check value of CRC-32C for "123456789" (RFC 3720).
func TestCRC(t *testing.T) {
	if got := CRC([]byte("123456789")); got != 0xe3069283 {
		t.Errorf("got %08x", got)
	}
}
