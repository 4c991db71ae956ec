// Package sparkplug takes messages of Sparkplug B from a gateway's MQTT inputs. It
// knows the births of edge nodes and devices, and makes samples of their data.
//
// # What is kept
//
// For each edge node: whether it is born, its bdSeq, and the last seq. For each
// device, and for the node itself: the aliases and types of the metrics that are
// channels of the model, and the last value of each (internal/image). Other metrics
// are read past. The key of a device's stream is GROUP/NODE/DEVICE, of a node's
// own metrics GROUP/NODE.
//
// # What a message does
//
//	NBIRTH  a session of the node begins; its devices must have births after it
//	DBIRTH  tells the values of all metrics. No sample: a birth repeats what is so, whenever
//	        somebody asks for one
//	NDATA,  new values of some metrics; those of one time are a sample, the other channels
//	DDATA   have the last value that was told
//	DDEATH  the device is not born any more; the next samples carry the flag gap
//	NDEATH  the same for the node and all of its devices, if bdSeq is that of its birth
//	others  are for others
//
// A death ends no sequence unless Options.End says so: it means that a node has lost
// its broker, not that its machine has stopped.
//
// # What is missing
//
// Data before a birth cannot be read, for they have aliases only, and the other
// channels are not known. They are refused, and the node is asked for its births
// (NCMD, "Node Control/Rebirth"), every 5 s at most. So it is after a start of the
// gateway: nothing is stored of a node. If seq shows that messages are lost, the
// node is asked, too, but its data are taken: the channels that they have are right, and
// the others may be old until the birth. In all of these cases the next samples
// begin a new incarnation of the stream, and its prediction has the flag gap.
//
// Historical values (is_historical), which a node has kept while it had no broker,
// make samples if they are after the last sample of the stream. They do not
// change the values held for later ones. The other channels have the values of before
// the birth. Those that are not after the last sample are refused: times of a stream
// do not go back for them.
//
// # Bounds
//
// 65,536 metrics of a message, 10,000 edge nodes, 10,000 devices of a node, 2^20
// devices and nodes in all; a message is as large as the broker lets it be.
//
// # Files
//
//   - host.go: receives messages as a host application and makes samples
//   - node.go: tracks births, deaths and lost messages of an edge node
//   - payload.go: decodes messages
//   - quality.go: reads the quality of a metric
package sparkplug
