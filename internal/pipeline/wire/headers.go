package wire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Message headers, first those of producers. Package pipeline's documentation explains
// their meaning.
const (
	HeaderSeq         = "Eusn-Seq"
	HeaderIncarnation = "Eusn-Incarnation"
	HeaderCRC         = "Eusn-Crc"
	HeaderEnd         = "Eusn-End"
	HeaderUnreadable  = "Eusn-Unreadable"
	HeaderLastTime    = "Eusn-Last-Ts" // for producers that resume; the stage does not read it

	HeaderKind      = "Eusn-Kind"
	HeaderWorker    = "Eusn-Worker"
	HeaderInSeq     = "Eusn-In-Seq"
	HeaderAhead     = "Eusn-Ahead"
	HeaderOuts      = "Eusn-Outs"
	HeaderInCreated = "Eusn-In-Created"
	HeaderEpoch     = "Eusn-Epoch"
	HeaderDigest    = "Eusn-Digest"
	HeaderDigestSeq = "Eusn-Digest-In-Seq"
	HeaderInTime    = "Eusn-In-Ts"
	HeaderRests     = "Eusn-Rests-In-Seq"
	HeaderRestsTime = "Eusn-Rests-In-Ts"
	HeaderSnap      = "Eusn-Snap"
	HeaderSnapSeq   = "Eusn-Snap-In-Seq"
	HeaderLosses    = "Eusn-Lost-Before"
	HeaderEmptyTo   = "Eusn-In-Empty-To"
	HeaderArith     = "Eusn-Arithmetic"
	HeaderVersion   = "Eusn-Digest-Version"
	HeaderNetwork   = "Eusn-Network"
	HeaderReadout   = "Eusn-Readout"
	HeaderInput     = "Eusn-Input"
	HeaderGen       = "Eusn-Generation"
	HeaderResize    = "Eusn-Resize"
	HeaderSource    = "Eusn-Input-Job"
	HeaderInSubject = "Eusn-In-Subject"
	HeaderError     = "Eusn-Error"
	HeaderReason    = "Eusn-Reason"
	HeaderDead      = "Eusn-Dead-Letter"
	HeaderTruncated = "Eusn-Truncated"
	HeaderDropped   = "Eusn-Headers-Dropped"

	HeaderPromoted   = "Eusn-Promoted"
	HeaderPromotions = "Eusn-Promotions"
	HeaderShadows    = "Eusn-Shadows"
	HeaderOutCreated = "Eusn-Out-Created"

	HeaderJudged     = "Eusn-Judged"
	HeaderPrediction = "Eusn-Prediction"
)

// Kinds of messages, in Eusn-Kind: the kinds of a partition's records, then other
// kinds.
const (
	KindClaim    = "claim"    // a worker takes the partition over
	KindCommit   = "commit"   // predictions, and the position after them
	KindReleased = "released" // its worker has released the partition, with a snapshot of the last state

	KindJob       = "job"        // the model of the job
	KindIdle      = "idle"       // an end event, of the input
	KindPromote   = "promote"    // another readout predicts from now on; likewise for a partition's input
	KindSentAgain = "sent-again" // marks a resent dead letter
	KindShadow    = "shadow"     // predictions of a shadow readout
	KindFeatures  = "features"   // predictions that carry their features
	KindLabel     = "label"      // a person's label for a part of a stream
	KindAlarm     = "alarm"      // of the log of the job's alarms
)

// Header is a message's headers, convertible from any client's type.
type Header = map[string][]string

// Get returns the first value of a header, empty without the header. Names have one
// spelling here: see SpellHeaders.
func Get(h Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// SpellHeaders corrects the case of a producer's header names. NATS distinguishes
// "eusn-seq" from "Eusn-Seq", but a producer that writes the former means the latter,
// and gateways from HTTP/2 write all names in lower case: an ignored header would
// silently let repeats and gaps pass, or join two sequences. A header with two
// spellings is an error: one of them would have to be ignored.
func SpellHeaders(h Header) error {
	for k := range h {
		switch k {
		case HeaderSeq, HeaderIncarnation, HeaderCRC, HeaderEnd, HeaderUnreadable: // most messages have only these headers
		default:
			if producerHeader(k) != "" {
				return respellHeaders(h)
			}
		}
	}
	return nil
}

// producerHeader returns the producer header that k spells in any case, "" if there is
// none.
func producerHeader(k string) string {
	if len(k) < len(HeaderSeq) || !strings.EqualFold(k[:len("Eusn-")], "Eusn-") {
		return ""
	}
	for _, name := range [...]string{HeaderSeq, HeaderIncarnation, HeaderCRC, HeaderEnd, HeaderUnreadable} {
		if strings.EqualFold(k, name) {
			return name
		}
	}
	return ""
}

func respellHeaders(h Header) error {
	spelled := map[string]string{} // name -> spelling in the message
	for _, k := range slices.Sorted(maps.Keys(h)) {
		name := producerHeader(k)
		if other, twice := spelled[name]; twice && name != "" {
			return fmt.Errorf("pipeline: headers %s and %s are the same but for case: give it once, as %s", other, k, name)
		}
		spelled[name] = k
	}
	delete(spelled, "")
	for name, k := range spelled {
		values := h[k]
		delete(h, k)
		h[name] = values
	}
	return nil
}

// maxLine is how many bytes of a text OneLine keeps.
const maxLine = 1 << 10

// OneLine makes a header or a log line of a text, a dead letter's reason for
// instance: at most 1 KiB of UTF-8 without control characters.
func OneLine(s string) string {
	clean := []byte(s[:min(maxLine, len(s))])
	for i, c := range clean {
		if c < ' ' {
			clean[i] = ' '
		}
	}
	return strings.ToValidUTF8(string(clean), "")
}
