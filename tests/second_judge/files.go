package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

type Row = map[string]any // one JSON object; numbers stay as they are written, so that 1 is not 1.0

func decode(content []byte) (found Row, err error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	err = decoder.Decode(&found)
	if _, end := decoder.Token(); err == nil && end != io.EOF {
		err = fmt.Errorf("something follows the object")
	}
	return found, err
}

func readObject(path string) Row { return must(decode(must(os.ReadFile(path)))) }

// readRows hands over the lines up to the end line, which has to say how many there are; returns their number.
func readRows(path string, take func(Row)) (rows int) {
	for reader := bufio.NewReaderSize(must(os.Open(path)), 1<<20); ; rows++ {
		line, cut := reader.ReadBytes('\n')
		row, err := decode(line)
		if cut != nil || err != nil {
			panic(fmt.Sprintf("%s:%d: no row, or no end line after it: %v", path, rows+1, err))
		}
		if row["end"] == nil {
			take(row)
			continue
		}
		if _, err := reader.ReadByte(); err != io.EOF || number(row["rows"]) != int64(rows) {
			panic(fmt.Sprintf("%s: %d rows, its end line says %v, or it goes on", path, rows, row["rows"]))
		}
		return rows
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err.Error())
	}
	return value
}

// as is a value of a type, or the empty one where it is of another.
func as[T any](value any) (found T) { found, _ = value.(T); return found }

const none = int64(-1) << 63

// number is a whole number, or none where there is no such.
func number(value any) int64 {
	if found, err := as[json.Number](value).Int64(); err == nil {
		return found
	}
	return none
}

func at(values any, n int) int64 { return number(append(as[[]any](values), nil, nil, nil)[n]) }
func pair(bounds any) [2]int64   { return [2]int64{at(bounds, 0), at(bounds, 1)} }

func written(value int64) json.Number { return json.Number(fmt.Sprint(value)) }
