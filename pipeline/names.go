package pipeline

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Message headers; package doc says what they mean.
const (
	HeaderSeq         = "Eusn-Seq"
	HeaderIncarnation = "Eusn-Incarnation"
	HeaderCRC         = "Eusn-Crc"
	HeaderEnd         = "Eusn-End"

	headerKind      = "Eusn-Kind"
	headerWorker    = "Eusn-Worker"
	headerInSeq     = "Eusn-In-Seq"
	headerAhead     = "Eusn-Ahead"
	headerOuts      = "Eusn-Outs"
	headerInCreated = "Eusn-In-Created"
	headerEpoch     = "Eusn-Epoch"
	headerDigest    = "Eusn-Digest"
	headerDigestSeq = "Eusn-Digest-In-Seq"
	headerInTime    = "Eusn-In-Ts"
	headerRests     = "Eusn-Rests-In-Seq"
	headerRestsTime = "Eusn-Rests-In-Ts"
	headerSnap      = "Eusn-Snap"
	headerSnapSeq   = "Eusn-Snap-In-Seq"
	headerLosses    = "Eusn-Lost-Before"
	headerEmptyTo   = "Eusn-In-Empty-To"
	headerArith     = "Eusn-Arithmetic"
	headerVersion   = "Eusn-Digest-Version"
	headerNetwork   = "Eusn-Network"
	headerReadout   = "Eusn-Readout"
	headerInSubject = "Eusn-In-Subject"
	headerError     = "Eusn-Error"
	headerReason    = "Eusn-Reason"
	headerDead      = "Eusn-Dead-Letter"
	headerTruncated = "Eusn-Truncated"
	headerDropped   = "Eusn-Headers-Dropped"
)

// Names of a job's NATS streams and subjects.
func inputStream(job string) string      { return strings.ToUpper(job) + "-IN" }
func outputStream(job string) string     { return strings.ToUpper(job) + "-OUT" }
func deadLetterStream(job string) string { return strings.ToUpper(job) + "-DLQ" }
func snapshotBucket(job string) string   { return strings.ToUpper(job) + "-SNAP" }
func memberBucket(job string) string     { return strings.ToUpper(job) + "-MEMBERS" }

func inputFilter(job string, p int) string       { return fmt.Sprintf("%s.in.%d.*", job, p) }
func outputSubject(job string, p int) string     { return fmt.Sprintf("%s.out.%d", job, p) }
func deadLetterSubject(job string, p int) string { return fmt.Sprintf("%s.dlq.%d", job, p) }

// Kinds of messages, in Eusn-Kind: those of a partition's records, and others.
const (
	kindClaim    = "claim"    // a worker takes the partition over
	kindCommit   = "commit"   // predictions, and the position behind them
	kindReleased = "released" // its worker has given it up, with a snapshot of the last state

	kindJob       = "job"        // which model the job runs
	kindIdle      = "idle"       // an end event, of the input
	kindSentAgain = "sent-again" // marks a dead letter that was sent again
)

func snapshotStream(job string) string { return "OBJ_" + snapshotBucket(job) }

func memberStream(job string) string { return "KV_" + memberBucket(job) }

func rowStream(job string) string { return strings.ToUpper(job) + "-ROWS" }

func rowSubjects(job string, part int) string { return fmt.Sprintf("%s.rows.%d.*", job, part) }

func rowSubject(job string, part int, epoch uint64) string {
	return fmt.Sprintf("%s.rows.%d.%d", job, part, epoch)
}

func entrySubject(job string) string { return job + ".out." + kindJob }

// snapshotName is unique: a partition has one owner per epoch, who takes one
// snapshot per input message at most.
func snapshotName(part int, epoch, inSeq uint64) string {
	return fmt.Sprintf("p%d.e%d.%d", part, epoch, inSeq)
}

// parseSnapshotName takes a name apart; ok is false for what is not ours.
func parseSnapshotName(name string) (part int, epoch, inSeq uint64, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || !strings.HasPrefix(parts[0], "p") || !strings.HasPrefix(parts[1], "e") {
		return 0, 0, 0, false
	}
	part, err1 := strconv.Atoi(parts[0][1:])
	epoch, err2 := strconv.ParseUint(parts[1][1:], 10, 64)
	inSeq, err3 := strconv.ParseUint(parts[2], 10, 64)
	return part, epoch, inSeq, err1 == nil && err2 == nil && err3 == nil
}

const (
	// idlePrefix begins the keys of end events. An event under any other key is
	// refused, so that a producer who may publish under its own keys alone can
	// end nobody else's sequences.
	idlePrefix = "eusn-idle-"
)

// idleKey is a key of a partition that no producer uses, so that an end event
// comes between its streams' messages and on none of their subjects: there,
// producers look for the last number they have used.
func idleKey(part, partitions int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprintf("%s%d", idlePrefix, i); partitionOf(key, partitions) == part {
			return key
		}
	}
}

// partitionOf is the partition that the server gives a key.
func partitionOf(key string, partitions int) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % uint32(partitions))
}
