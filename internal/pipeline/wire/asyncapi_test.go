package wire

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

var writeAsyncAPI = flag.Bool("write-asyncapi", false, "write docs/asyncapi.json")

const asyncAPIFile = "../../../docs/asyncapi.json"

type object = map[string]any

// headerMeanings describes each header briefly; the full description is in package
// pipeline's documentation.
var headerMeanings = map[string]string{
	HeaderSeq:         "1, 2, 3, ... per key: repeats are dropped, early messages wait, missing ones are flagged",
	HeaderIncarnation: "changes when a producer counts from 1 again; up to 128 bytes",
	HeaderCRC:         "CRC-32C of the payload, 8 hex digits",
	HeaderEnd:         "true or 1: the sequence ends after the message's last sample",
	HeaderUnreadable:  "why a gateway cannot read the payload, which is as its device has sent it: the stage makes a dead letter of it",
	HeaderLastTime:    "time of the stream's last sample, this message included, ns since 1970; the stage does not read it",
	HeaderKind:        "what the message is",
	HeaderWorker:      "which run of the stage wrote it",
	HeaderInSeq:       "number in the input: of a record, the last input whose predictions are all published; of a dead letter, the input message",
	HeaderAhead:       "predictions already published of inputs after Eusn-In-Seq",
	HeaderOuts:        "predictions published on this partition so far, this message included",
	HeaderInCreated:   "creation time of the input that the numbers refer to",
	HeaderEpoch:       "rises with every claim of the partition",
	HeaderDigest:      "of the partition's state after input Eusn-Digest-In-Seq, 32 hex digits",
	HeaderDigestSeq:   "input that the digest is after",
	HeaderInTime:      "when the server stored input Eusn-Digest-In-Seq, ns since 1970",
	HeaderRests:       "in the middle of a split commit: the last input that the predictions so far depend on",
	HeaderRestsTime:   "when the server stored input Eusn-Rests-In-Seq, ns since 1970",
	HeaderSnap:        "object in the bucket of snapshots with the state after input Eusn-Snap-In-Seq",
	HeaderSnapSeq:     "input that the snapshot is after",
	HeaderLosses:      "inputs before which some may have been lost, as \"12 40-77 90-\"",
	HeaderEmptyTo:     "the partition has no input after Eusn-In-Seq up to this one",
	HeaderArith:       "what computed the states; absent: canonical",
	HeaderVersion:     "version of the digest",
	HeaderNetwork:     "identity of the model without readouts, and the arithmetic",
	HeaderReadout:     "identity of the readout",
	HeaderInput:       "how the job reads its messages, as JSON; absent: as Arrow",
	HeaderGen:         "how often the job's number of partitions has changed; absent: never",
	HeaderResize:      "the number of partitions, where that or the network has changed, and how far a change is (JSON)",
	HeaderSource:      "the job whose input this one reads, its creation time and the first message that is read (JSON); absent: the job's own",
	HeaderPromoted:    "the newest promotion that the writer knows, the newest that the state has taken, by which input, and its readout (- = the job's first)",
	HeaderPromotions:  "the newest promotions of readouts (JSON)",
	HeaderShadows:     "readouts that score beside the one that answers (JSON); absent: none",
	HeaderOutCreated:  "creation time of the output whose predictions are numbered",
	HeaderInSubject:   "subject of the input message",
	HeaderError:       "the reason in a sentence",
	HeaderReason:      "the reason in a word",
	HeaderDead:        "number of the dead letter that was sent again",
	HeaderTruncated:   "original length of a payload that did not fit",
	HeaderDropped:     "headers that did not fit",
	HeaderJudged:      "of an event: partition:number of the predictions that had been judged, of the partitions with any since the event before",
	HeaderPrediction:  "of an event that follows from a prediction: its partition:number",
	traceParent:       "where the message stands in a trace, as the W3C's trace context has it",
	traceState:        "what tracing systems have added to it, likewise",
}

// The headers of traces, see package internal/trace.
const traceParent, traceState = "traceparent", "tracestate"

// headerSchema returns the schema of a message's headers; kinds are the allowed values
// of Eusn-Kind.
func headerSchema(required, optional []string, kinds ...string) object {
	properties := object{}
	for _, name := range append(slices.Clone(required), optional...) {
		properties[name] = object{"type": "string", "description": headerMeanings[name]}
	}
	if len(kinds) > 0 {
		properties[HeaderKind].(object)["enum"] = kinds
	}
	if _, ok := properties[HeaderReason]; ok {
		properties[HeaderReason].(object)["enum"] = ReasonNames[:]
	}
	s := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func asyncMessage(name, summary, contentType string, headers object) object {
	return object{
		"name": name, "title": name, "summary": summary, "contentType": contentType, "headers": headers,
		"payload": object{"type": "string", "format": "binary", "description": summary},
	}
}

const arrow = "application/vnd.apache.arrow.stream"

// asyncColumns describes the columns of predictions: AsyncAPI has no notation for Arrow
// columns.
func asyncColumns() (all []object) {
	for _, c := range outcome.Columns {
		if c.Arrow == "" {
			continue
		}
		column := object{"name": c.Arrow, "type": c.Type.String(), "nullable": c.Null, "optional": c.Part != outcome.Always || c.Arrow == "readout" || c.Arrow == "scores", "description": c.Means}
		if c.Unit != "" {
			column["unit"] = c.Unit
		}
		if c.Absent != "" {
			column["absent"] = c.Absent
		}
		all = append(all, column)
	}
	return all
}

func asyncMessageObjects() object {
	all := asyncMessages()
	all["predictions"].(object)["payload"].(object)["x-columns"] = asyncColumns()
	return all
}

func asyncMessages() object {
	producer := []string{HeaderSeq, HeaderIncarnation, HeaderCRC, HeaderEnd, HeaderUnreadable, HeaderLastTime, HeaderDead, traceParent, traceState}
	identity := []string{HeaderArith, HeaderNetwork, HeaderReadout}
	record := append([]string{
		HeaderDigest, HeaderDigestSeq, HeaderInTime, HeaderVersion, HeaderRests, HeaderRestsTime, HeaderSnap, HeaderSnapSeq, HeaderLosses, HeaderEmptyTo, HeaderGen, HeaderPromoted, traceParent, traceState,
	}, identity...)
	return object{
		"samples": asyncMessage("samples", "samples of one stream, or of several with a column stream_id, in order: an Arrow IPC stream with one column per channel, and perhaps ts, end and stream_id (codec/doc.go). A job with another input.format reads JSON, CSV, line protocol or bare numbers instead (docs/formats.md)", arrow,
			headerSchema(nil, producer)),
		"endEvent": asyncMessage("endEvent", "the stage's own: sequences that silence has ended, as JSON (pipeline/doc.go, Silence)", "application/json",
			headerSchema([]string{HeaderKind}, nil, KindIdle)),
		"promotion": asyncMessage("promotion", "the stage's own: another readout answers in this partition, as JSON (pipeline/doc.go, Promotion)", "application/json",
			headerSchema([]string{HeaderKind}, nil, KindPromote)),
		"predictions": asyncMessage("predictions", "the predictions of a batch and the position behind them, in one message: an Arrow IPC stream with the columns x-columns (docs/reference.md). Those of kind claim and released have no predictions", arrow,
			headerSchema([]string{HeaderKind, HeaderEpoch, HeaderWorker, HeaderInCreated, HeaderInSeq, HeaderAhead, HeaderOuts}, record, KindCommit, KindClaim, KindReleased)),
		"job": asyncMessage("job", "which model the job runs; its body has no predictions", arrow,
			headerSchema([]string{HeaderKind}, append([]string{HeaderWorker, HeaderInput, HeaderResize, HeaderSource, HeaderPromotions, HeaderShadows}, identity...), KindJob)),
		"shadow": asyncMessage("shadow", "what a readout that does not answer says of predictions, before they are published: an Arrow IPC stream with the columns of predictions, and active_class, active_readout, began, input and stored (codec/doc.go)", arrow,
			headerSchema([]string{HeaderKind, HeaderOuts, HeaderOutCreated}, nil, KindShadow)),
		"features": asyncMessage("features", "predictions that carry their features, before they are published: an Arrow IPC stream with the columns of predictions, and number, samples, began, input, stored and features (codec/doc.go)", arrow,
			headerSchema([]string{HeaderKind, HeaderNetwork, HeaderOutCreated}, nil, KindFeatures)),
		"deadLetter": asyncMessage("deadLetter", "an input message that could not be used: its bytes and headers, and why", "application/octet-stream",
			headerSchema([]string{HeaderError, HeaderReason, HeaderInSeq, HeaderInSubject}, []string{HeaderTruncated, HeaderDropped, HeaderDead})),
		"sentAgain": asyncMessage("sentAgain", "marks a dead letter that was sent to the input again, as input message Eusn-In-Seq", "application/octet-stream",
			headerSchema([]string{HeaderKind, HeaderDead, HeaderInSeq, HeaderInSubject, HeaderError}, nil, KindSentAgain)),
		"label": asyncMessage("label", "what somebody says that a part of a stream was, as JSON: stream; from and to (times of samples), or seq and row (of a prediction); label, or withdrawn: true; who; when (internal/labels/doc.go). Nats-Msg-Id is the first 32 hex digits of the body's SHA-256", "application/json",
			headerSchema([]string{HeaderKind}, nil, KindLabel)),
		"alarm": asyncMessage("alarm", "what happened to an alarm, as JSON: number, event (raised, acknowledged or cleared), id, alarm (number of the event that raised it), rule, key, stream, class, probability, novelty, novelty_p, value, low, high, channels, accepted, replaces, since, time, position (in the output), who, why; or which rules hold from then on (docs/alarms.md)", "application/json",
			headerSchema([]string{HeaderKind, HeaderWorker}, []string{HeaderJudged, HeaderPrediction}, KindAlarm)),
		"alarmState": asyncMessage("alarmState", "of the process that writes the alarms, for itself: its record, and pieces of its state", "application/octet-stream",
			headerSchema([]string{HeaderKind, HeaderWorker}, nil, KindAlarm)),
		"acknowledgement": asyncMessage("acknowledgement", "a request, as JSON: rule, key, who, and perhaps alarm; the answer has event or error", "application/json", headerSchema(nil, nil)),
		"alive":           asyncMessage("alive", "a question without a body; the answer, as JSON, has writer, position (judged of the output), last (message of the alarm log) and written (position and number up to which the bucket of the latest is)", "application/json", headerSchema(nil, nil)),
		"ruleSet":         asyncMessage("ruleSet", "a request, as JSON: rules (names and texts, all that hold from then on), who; the answer has event or error", "application/json", headerSchema(nil, nil)),
		"question":        asyncMessage("question", "a request without a content", "application/octet-stream", headerSchema(nil, nil)),
		"report":          asyncMessage("report", "what a process of the job says of itself, as JSON: form, role, job, id, host, pid, program, started, time, errors, marks, and stage, gateway or alarms (docs/status.md)", "application/json", headerSchema(nil, nil)),
		"stateRow":        asyncMessage("stateRow", "the state of a stream that the engine has no room for: 32-bit words, little endian", "application/octet-stream", headerSchema(nil, nil)),
	}
}

// asyncAPI returns the document, with the subjects made by this package.
func asyncAPI() object {
	const job, part, key, epoch = 7000001, 7000002, 7000003, 7000004 // stand for parameters
	name := func(subject string) string {
		for id, parameter := range map[int]string{job: "{job}", part: "{partition}", key: "{key}", epoch: "{epoch}"} {
			subject = strings.ReplaceAll(subject, fmt.Sprint(id), parameter)
		}
		return subject
	}
	parameters := object{
		"job":       object{"description": "name of the job", "default": DefaultJob},
		"partition": object{"description": "a fixed share of all keys, from 0: FNV-1a-32 mod the number of partitions, of the tokens that * and names in input.subject stand for, without dots; where it ends in >, of the whole subject that was published"},
		"key":       object{"description": "name of a stream, or of a gateway that sends many: what the wildcards of input.subject stand for, joined by dots; with sensors.* one token. UTF-8, and at most 256 bytes where there are several. Keys whose tokens begin with " + IdlePrefix + " belong to the stage"},
		"rule":      object{"description": "name of a rule"},
		"readout":   object{"description": "fingerprint of a readout in the job's registry"},
		"epoch":     object{"description": "of the partition's claim"},
		"asker":     object{"description": "a token of who asks, another one for each question"},
	}
	channels, operations := object{}, object{}
	add := func(id, subject, description, action string, messages ...string) {
		refs, opRefs, used := object{}, []object{}, object{}
		for _, m := range messages {
			refs[m] = object{"$ref": "#/components/messages/" + m}
			opRefs = append(opRefs, object{"$ref": "#/channels/" + id + "/messages/" + m})
		}
		for p := range parameters {
			if strings.Contains(subject, "{"+p+"}") {
				used[p] = object{"$ref": "#/components/parameters/" + p}
			}
		}
		channels[id] = object{"address": subject, "description": description, "parameters": used, "messages": refs}
		operations[id] = object{"action": action, "channel": object{"$ref": "#/channels/" + id}, "messages": opRefs, "summary": description}
	}
	j, k := fmt.Sprint(job), fmt.Sprint(key)
	stored := func(nats func(string) string) string { return "; stored in the NATS stream " + nats("<job>") }
	add("samples", strings.TrimSuffix(DefaultInputSubject, "*")+"{key}", "samples in, on the subjects that input.subject takes: sensors.{key}, or for instance plant.{site}.line.{line}, whose key is {site}.{line} (docs/subjects.md). The server stores them under the subject of channel input", "receive", "samples", "endEvent", "promotion")
	add("input", name(InputSubject(j, part, k)), "the input as the stage reads it; nobody publishes here"+stored(InputStream), "receive", "samples", "endEvent", "promotion")
	add("predictions", name(OutputSubject(j, part)), "predictions out"+stored(OutputStream), "send", "predictions")
	add("job", name(EntrySubject(j)), "the model of the job"+stored(OutputStream), "send", "job")
	add("deadLetters", name(DeadLetterSubject(j, part)), "input that could not be used"+stored(DeadLetterStream), "send", "deadLetter", "sentAgain")
	add("shadows", strings.Replace(name(ShadowSubject(j, k, part)), "{key}", "{readout}", 1), "predictions of readouts that do not answer"+stored(ShadowStream), "send", "shadow")
	add("features", name(FeatureSubject(j, part)), "predictions that carry their features (output.features_one_in)"+stored(FeatureStream), "send", "features")
	add("labels", name(LabelSubject(j, k)), "labels of streams, for training; the stage does not read them. The key is the name of the stream, with _ for what cannot be in a token"+stored(LabelStream), "receive", "label")
	add("alarms", name(AlarmSubject(j, "{rule}", k)), "alarms raised, acknowledged and cleared, each once. The key is the name of a stream or of a group of streams; what cannot be in a subject is = and two hex digits"+stored(AlarmStream), "send", "alarm")
	add("alarmRules", name(AlarmRulesSubject(j)), "the rules that hold from then on"+stored(AlarmStream), "send", "alarm")
	add("alarmRecord", name(AlarmRecordSubject(j)), "who writes the alarms"+stored(AlarmStream), "send", "alarmState")
	add("alarmState", name(AlarmStateSubject(j)), "what the writer of the alarms knows"+stored(AlarmStream), "send", "alarmState")
	add("acknowledge", name(AlarmAckSubject(j)), "requests to acknowledge an alarm; stored nowhere", "receive", "acknowledgement")
	add("alive", name(AlarmAliveSubject(j)), "questions whether a process keeps the alarms, by those that stand by; stored nowhere", "receive", "alive")
	add("setRules", name(AlarmSetSubject(j)), "requests for other rules; stored nowhere", "receive", "ruleSet")
	add("status", name(ReportSubject(j)), "asks every process of the job how it is; stored nowhere. Each answers where the question says, which is {job}.status.answer. and a token of who asks", "receive", "question")
	add("statusAnswers", strings.Replace(name(AnswerSubject(j, k)), "{key}", "{asker}", 1), "what a process says of itself; stored nowhere", "send", "report")
	add("stateRows", name(RowSubject(j, part, epoch)), "states of cold streams, of the stage alone"+stored(RowStream), "send", "stateRow")
	return object{
		"asyncapi": "3.0.0", "id": "urn:eusn-stream:stage", "defaultContentType": arrow,
		"info": object{
			"title": "eusn-stream", "version": cli.Version, "license": object{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
			"description": "Every subject of a stage of eusn-stream, as the stage sees them: it receives samples and sends predictions. A job also has three buckets, of NATS's own formats: objects in " + SnapshotBucket("<job>") + " (snapshots) and " + ModelBucket("<job>") + " (models), and keys in " + MemberBucket("<job>") + " (workers). Alarms have a bucket of keys, " + LatestBucket("<job>") + ": last prediction and alarms of each stream, as JSON.",
			"contact":     object{"name": "eusn-stream", "url": "https://github.com/eusn-stream/eusn-stream"},
			"tags":        []object{{"name": "nats"}, {"name": "arrow"}},
		},
		"servers":  object{"embedded": object{"host": "127.0.0.1:4222", "protocol": "nats", "description": "the server inside eusn-stream run; or yours"}},
		"channels": channels, "operations": operations,
		"components": object{"messages": asyncMessageObjects(), "parameters": parameters},
	}
}

// docs/asyncapi.json has the subjects, headers and kinds that the program uses.
func TestAsyncAPI(t *testing.T) {
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(asyncAPI()); err != nil {
		t.Fatal(err)
	}
	if *writeAsyncAPI {
		if err := os.WriteFile(asyncAPIFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(asyncAPIFile)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("docs/asyncapi.json is not what the constants say (%v): go generate ./internal/pipeline/wire", err)
	}
	for _, quoted := range []string{"{job}.in.{partition}.{key}", "{job}.out.{partition}", "{job}.out.job", "{job}.dlq.{partition}", "{job}.rows.{partition}.{epoch}"} {
		if !bytes.Contains(got, []byte(`"address": "`+quoted+`"`)) {
			t.Errorf("docs/asyncapi.json lacks the subject %s", quoted)
		}
	}
	constants := stringConstants(t, "headers.go")
	if len(constants) < 30 {
		t.Errorf("%d headers and kinds found, want all", len(constants))
	}
	for name, value := range constants {
		if !bytes.Contains(got, []byte(strconv.Quote(value))) {
			t.Errorf("docs/asyncapi.json lacks %s, %q", name, value)
		}
		if strings.HasPrefix(name, "Header") && headerMeanings[value] == "" {
			t.Errorf("header %s has no meaning in the document", value)
		}
	}
}

// stringConstants returns a file's constants whose names begin with Header or Kind.
func stringConstants(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			name := v.Names[0].Name
			if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING && (strings.HasPrefix(name, "Header") || strings.HasPrefix(name, "Kind")) {
				all[name], err = strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		return true
	})
	return all
}
