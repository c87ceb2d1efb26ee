package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Send is an acknowledged record, and the epoch that read it.
type Send struct {
	row                     Row
	topic, place            string
	partition, offset, time int64
	malformed               bool
	epoch, left             int64 // left: by an epoch that has the next one take it
}

// readSends returns the sends in the order of their coordinates.
func readSends(path string) []*Send {
	var sends []*Send
	readRows(path, func(row Row) {
		reason, place := as[string](row["reason"]), fmt.Sprint(row["topic"], "/", row["partition"])
		row["source"] = []any{row["topic"], row["partition"], row["offset"]}
		send := &Send{row, as[string](row["topic"]), place, number(row["partition"]), number(row["offset"]),
			number(row["event_time_ms"]), row["kind"] == "malformed" || reason != "" && reason != "late", none, none}
		named := as[string](row["id"]) != "" && as[string](row["user"]) != ""
		whole := named && send.time != none && number(row["crc"]) == checksum(row)
		if send.offset < 0 || send.partition < 0 || !send.malformed && !whole {
			panic(fmt.Sprintf("%s:%d: no coordinate, or well-formed without id, user, time or checksum", path, len(sends)+1))
		}
		sends = append(sends, send)
	})
	slices.SortStableFunc(sends, func(a, b *Send) int {
		return slices.Compare([]int64{int64(strings.Compare(a.topic, b.topic)), a.partition, a.offset}, []int64{0, b.partition, b.offset})
	})
	return sends
}

// replay decides every send in the order of the epochs, and returns what each sink has to hold.
func replay(sends []*Send, chain, settings Row, answer *Answer) map[string]Due {
	length, lateness := number(settings["window_ms"]), number(settings["lateness_ms"])
	epochs, head := as[[]any](chain["epochs"]), as[Row](chain["head"])
	if declared := as[Row](head["declared"]); number(declared["epoch"]) == int64(len(epochs)) {
		epochs = append(epochs, any(declared)) // something of it may be visible
	}
	if len(epochs) == 0 || len(sends) == 0 || length <= 0 || lateness < 0 {
		panic("the chain holds no epoch, nothing was sent, or the manifest has no window")
	}
	due := map[string]Due{"accepted": {}, "accepted_rows": {}, "dead_letter": {}, "user_counts": {}, "global_counts": {}}
	ends, known, open := map[string]int64{}, map[string]bool{}, map[[2]any]int64{}
	reached, before, unread, shown := none, none, len(sends), map[string]int64{}
	for n, one := range epochs {
		record := as[Row](one)
		epoch, watermark, clock := number(record["epoch"]), number(record["watermark_ms"]), as[Row](record["clock"])
		answer.demand(epoch == int64(n), "chain", "epoch %v is the one of place %d", record["epoch"], n)
		read, keeps, slowest := take(sends, record, number(head["format"]), ends, shown, answer)
		wanted := map[bool]int64{true: max(before, slowest, number(map[bool]any{false: clock["forced_ms"]}[keeps])), false: reached}[keeps || clock != nil]
		answer.demand(watermark == wanted, "chain", "epoch %d: the watermark is %v, due is %d", epoch, record["watermark_ms"], wanted)
		passed := func(start int64) bool { return watermark != none && start+length+lateness <= watermark }
		for at, count := range open {
			if start := at[1].(int64); passed(start) {
				sink, row := "global_counts", Row{"window_start_ms": written(start), "count": written(count), "epoch": written(epoch)}
				if at[0] != nil { // nil counts all users
					sink, row["user"] = "user_counts", at[0]
				}
				due[sink].add(sink, row)
				delete(open, at)
			}
		}
		counts := map[string]int64{"in": int64(len(read))}
		for _, send := range read {
			start, id := send.time-((send.time%length)+length)%length, as[string](send.row["id"])
			if last, there := shown[send.place]; clock != nil && !send.malformed && (!there || last < send.time) {
				shown[send.place] = send.time
			}
			switch {
			case send.malformed:
				counts["malformed"]++
				due["dead_letter"].add("dead_letter", letter(send, as[string](send.row["reason"])))
			case passed(start):
				counts["late"]++
				due["dead_letter"].add("dead_letter", letter(send, "late"))
			case known[id]:
				counts["duplicate"]++
			default:
				counts["accepted"]++
				known[id] = true
				open[[2]any{send.row["user"], start}]++
				open[[2]any{nil, start}]++
				reached = max(reached, send.time)
				due["accepted_rows"].add("accepted_rows", accepted(send, "source"))
				due["accepted"].add("accepted", accepted(send, "source", "epoch"))
			}
		}
		answer.demand(record["counts"] != nil, "chain", "epoch %d is declared and not recorded", epoch)
		for _, name := range []string{"in", "accepted", "duplicate", "late", "malformed"} {
			told := number(as[Row](record["counts"])[name])
			answer.demand(told == counts[name] || record["counts"] == nil, "chain", "epoch %d: %s is %d, due is %d", epoch, name, told, counts[name])
		}
		before, unread = watermark, unread-len(read)
	}
	answer.demand(unread == answer.Lost, "chain", "%d records lie in no epoch's ranges", unread-answer.Lost)
	return due
}

// take returns an epoch's sends, whether it closes no window, and the least time of who is waited for.
func take(sends []*Send, record Row, format int64, ends, shown map[string]int64, answer *Answer) (read []*Send, keeps bool, least int64) {
	spans, given, epoch, clock := map[string][2]int64{}, false, number(record["epoch"]), as[Row](record["clock"])
	gone, lost, times := as[Row](as[Row](record["lost"])["offsets"]), map[string][2]int64{}, []int64{}
	for topic, partitions := range as[Row](record["ranges"]) {
		for name, bounds := range as[Row](partitions) {
			span, gap, place := pair(bounds), pair(as[Row](gone[topic])[name]), topic+"/"+name
			if gap[0] == ends[place] && gap[1] > gap[0] { // an operator gave it up
				lost[place], ends[place] = gap, gap[1]
			}
			answer.demand(span[0] == ends[place] && span[0] <= span[1], "chain", "epoch %d: %s is read over %v, before it up to %d", epoch, place, bounds, ends[place])
			ends[place], spans[place], given = span[1], span, given || span[0] != span[1]
			if time, there := shown[place]; !slices.Contains(as[[]any](as[Row](clock["idle"])[topic]), any(name)) {
				times = append(times, map[bool]int64{true: time, false: none}[there])
			}
		}
	}
	for name, time := range as[Row](clock["sources"]) {
		if len(times) > 0 && !slices.Contains(as[[]any](clock["released"]), any(name)) {
			times = append(times, number(time))
		}
	}
	repairs, leaves, again := number(record["repairs"]), leftBy(record, answer.run), record["after"] != nil && record["repairs"] == nil
	for _, send := range sends {
		in := func(span [2]int64) bool { return send.epoch == none && span[0] <= send.offset && send.offset < span[1] }
		due := in(spans[send.place]) || send.epoch == none && repairs != none && send.left == repairs
		if in(lost[send.place]) {
			answer.Lost, send.epoch = answer.Lost+1, epoch
		} else if due && leaves(send) || again && send.epoch == none && send.left == epoch-1 {
			send.left = epoch // again: the rest that an abandoned epoch was to take
		} else if due {
			send.epoch, send.row["epoch"], read = epoch, written(epoch), append(read, send)
		}
	}
	abandoned := record["abandoned"] == true || record["abandoned"] == nil && format < 4 // does not state it: it was
	keeps = repairs != none || len(spans) > 0 && !given && abandoned
	return read, keeps, slices.Min(append(times, map[bool][]int64{true: {none}}[keeps || len(times) == 0]...))
}

// leftBy says what an epoch leaves to the next one: of shards that it pins all but the pinned rows, of one with too much
// the rows from where it stopped. A record is of the shard that it, or else its id, is seen in.
func leftBy(record Row, run string) func(*Send) bool {
	homes, pins, asShown := map[string]any{}, map[string]bool{}, record["shown"] != nil && record["repairs"] == nil
	sinks := map[bool]int{true: 3}[asShown] + map[bool]int{true: 2}[!asShown && record["left"] != nil]
	for _, sink := range []string{"accepted", "dead_letter", "shown"}[:sinks] {
		readRows(filepath.Join(run, "observed", sink+".jsonl"), func(row Row) {
			source := fmt.Sprint(row["source"])
			homes[fmt.Sprint(row["id"])], homes[source] = row["partition"], row["partition"]
			pins[source] = pins[source] || sink == "shown" && number(row["epoch"]) == number(record["epoch"])
		})
	}
	leaves := func(s *Send, name any) bool {
		shard := fmt.Sprint(homes[fmt.Sprint(name)])
		stopped, place := as[Row](record["left"])[shard], []int64{s.partition, s.offset}
		beyond := stopped != nil && slices.Compare(place, []int64{at(stopped, 1), at(stopped, 2)}) >= 0
		return beyond || asShown && as[Row](record["shown"])[shard] != nil && !pins[fmt.Sprint(s.row["source"])]
	}
	return func(s *Send) bool { return leaves(s, s.row["source"]) || leaves(s, s.row["id"]) }
}
