package main

import (
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

// Due is what a sink has to hold, by what tells its rows apart.
type Due map[string]Row

var keys = map[string][]string{
	"accepted": {"id"}, "accepted_rows": {"id"}, "dead_letter": {"source"}, "user_counts": {"user", "window_start_ms"},
	"global_counts": {"window_start_ms"},
}

func keyOf(sink string, row Row) (key string) {
	for _, name := range keys[sink] {
		key += fmt.Sprintf("%T %v\x00", row[name], row[name])
	}
	return key
}

func (d Due) add(sink string, row Row) { row["sink"] = sink; d[keyOf(sink, row)] = row }

// compare holds the rows of a sink against what is due.
func compare(run, sink string, due Due, answer *Answer) {
	seen, counts := map[string]int{}, map[string]int{"expected": len(due)}
	count := func(sort, format string, value any) { counts[sort]++; answer.demand(false, sink, format, value) }
	counts["observed"] = readRows(filepath.Join(run, "observed", sink+".jsonl"), func(row Row) {
		key := keyOf(sink, row)
		wanted, there := due[key]
		if !there {
			count("phantom", "nobody sent %v", row)
			return
		}
		if seen[key]++; seen[key] > 1 {
			count("duplicated", "twice: %v", row)
		}
		for name, value := range wanted {
			if found, there := row[name]; !there || !reflect.DeepEqual(found, value) {
				count("corrupted", "another "+name+" than is due: %v", row)
				break
			}
		}
	})
	for key, row := range due {
		if seen[key] == 0 {
			count("missing", "missing %v", row)
		}
	}
	answer.Sinks[sink] = counts
}

// accepted is the row of an accepted record, with what else its sink tells of it.
func accepted(send *Send, more ...string) Row {
	row := Row{}
	for _, name := range append([]string{"id", "user", "event_time_ms", "payload", "crc"}, more...) {
		row[name] = send.row[name]
	}
	return row
}

// letter is the dead letter of a record: its bytes as they were sent.
func letter(send *Send, reason string) Row {
	row := Row{"reason": reason, "epoch": send.row["epoch"], "source": send.row["source"], "id": send.row["id"],
		"value": wire(send.row), "encoding": "utf-8"}
	if !send.malformed {
		return row
	}
	row["value"], row["encoding"], row["id"] = send.row["value"], send.row["encoding"], nil
	content := []byte(as[string](row["value"]))
	if row["encoding"] == "base64" {
		content, _ = base64.StdEncoding.DecodeString(as[string](row["value"]))
	}
	if found, err := decode(content); reason == "not_json" {
		delete(row, "id") // the parser that refuses it may have come to its id, or not
	} else if err == nil && as[string](found["id"]) != "" {
		row["id"] = found["id"]
	}
	return row
}

// dueOfControl is what a control has to let through once: any copy of a record, and in no epoch.
func dueOfControl(sends []*Send) Due {
	due := Due{}
	for _, send := range sends {
		if !send.malformed && send.row["kind"] != "late" {
			due.add("accepted", accepted(send))
		}
	}
	return due
}

func checksum(row Row) int64 {
	content := fmt.Sprintf("%v|%v|%v|%v", row["id"], row["user"], row["event_time_ms"], row["payload"])
	return int64(crc32.ChecksumIEEE([]byte(content)))
}

// wire is the message of a well-formed record: compact JSON in UTF-8.
func wire(row Row) string {
	return control.ReplaceAllStringFunc(fmt.Sprintf(`{"id":%s,"user":%s,"event_time_ms":%v,"payload":%s,"crc":%v}`,
		quoted(row["id"]), quoted(row["user"]), row["event_time_ms"], quoted(row["payload"]), row["crc"]), func(one string) string { return fmt.Sprintf(`\u%04x`, one[0]) })
}

var control, short = regexp.MustCompile(`[\x00-\x1f]`), strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\b", `\b`, "\f", `\f`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

func quoted(value any) string { return `"` + short.Replace(as[string](value)) + `"` }
