package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// wireHeader is a message's headers. Any client's can be used as one.
type wireHeader = map[string][]string

// headerValue is the first value of a header, empty without one. A name has one
// spelling here: see spellHeaders.
func headerValue(h wireHeader, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// spellHeaders gives a producer's headers their names. NATS tells "eusn-seq"
// from "Eusn-Seq", but a producer who writes it means it, and gateways that
// come from HTTP/2 write every name so: unread, it would let repeats and gaps
// pass, or join two sequences, without a word. A header that stands there
// under two spellings is an error: one of them would have to be ignored.
func spellHeaders(h wireHeader) error {
	for k := range h {
		switch k {
		case HeaderSeq, HeaderIncarnation, HeaderCRC, HeaderEnd: // most messages have no others
		default:
			if producerHeader(k) != "" {
				return respell(h)
			}
		}
	}
	return nil
}

// producerHeader is the name of the header that k spells in some case, "" if
// it is none of a producer's.
func producerHeader(k string) string {
	if len(k) < len(HeaderSeq) || !strings.EqualFold(k[:len("Eusn-")], "Eusn-") {
		return ""
	}
	for _, name := range [...]string{HeaderSeq, HeaderIncarnation, HeaderCRC, HeaderEnd} {
		if strings.EqualFold(k, name) {
			return name
		}
	}
	return ""
}

func respell(h wireHeader) error {
	spelt := map[string]string{} // name -> how it is written
	for _, k := range slices.Sorted(maps.Keys(h)) {
		name := producerHeader(k)
		if other, twice := spelt[name]; twice && name != "" {
			return fmt.Errorf("pipeline: headers %s and %s are the same but for case: give it once, as %s", other, k, name)
		}
		spelt[name] = k
	}
	delete(spelt, "")
	for name, k := range spelt {
		values := h[k]
		delete(h, k)
		h[name] = values
	}
	return nil
}
