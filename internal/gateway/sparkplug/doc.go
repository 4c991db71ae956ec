// Package sparkplug handles the Sparkplug B messages of a gateway's MQTT inputs. It tracks the
// births of edge nodes and devices, and makes samples from their data.
//
// # State
//
// For each edge node: whether the node is born, its bdSeq, and the newest seq. For each device,
// and for the node itself: the aliases and types of the metrics that are channels of the model,
// and the newest value of each metric (internal/image). Other metrics are skipped. The key of a
// device's stream is GROUP/NODE/DEVICE, the key for a node's own metrics is GROUP/NODE.
//
// # Messages
//
//	NBIRTH  starts a session of the node; the births of its devices must follow
//	DBIRTH  contains the values of all metrics. It makes no sample: a birth repeats current
//	        values, on request
//	NDATA,  contain new values of some metrics; the values of one time make a sample, with
//	DDATA   the newest known value for each other channel
//	DDEATH  ends the device; the next samples carry the flag gap
//	NDEATH  ends the node and all its devices, if bdSeq matches the node's birth
//	others  are ignored
//
// A death ends no sequence unless Options.End is set: the node has lost its broker, but its
// machine may still run.
//
// # Missing messages
//
// Data before a birth cannot be decoded, because data have only aliases, and the other channels
// are unknown. The host refuses such data and requests the births of the node (NCMD, "Node
// Control/Rebirth"), at most every 5 s. This happens after each start of the gateway, because
// the state of nodes is not stored.
//
// If seq shows lost messages, the host requests the births, too, but accepts the data: the
// channels in the data are right, and the other channels may be old until the birth. In all
// these cases the next samples start a new incarnation of the stream, and its prediction has
// the flag gap.
//
// Historical values (is_historical), stored by a node while it had no broker, make samples if
// they are after the stream's newest sample. Later samples do not use historical values. The
// other channels have the values before the birth. Historical values before the newest sample
// are refused, because the times of a stream must not go back.
//
// # Limits
//
// 65,536 metrics per message, 10,000 edge nodes, 10,000 devices per node, 2^20 devices and
// nodes in total; the broker limits the size of a message.
//
// # Files
//
//   - host.go: receives messages as a host application and makes samples
//   - node.go: tracks births, deaths and lost messages of an edge node
//   - payload.go: decodes messages
//   - quality.go: reads the quality of a metric
package sparkplug
