package sse

import "bytes"

// pending is the event being read. name and data are views of the chunk until own copies them.
type pending struct {
	name, data []byte
	lines      int // data lines
	owned      bool
	nameBuf    []byte
	dataBuf    []byte
}

func (e *pending) reset() {
	e.name, e.data, e.lines, e.owned = nil, nil, 0, false
	if cap(e.dataBuf) > keepCap {
		e.dataBuf = nil
	}
	if cap(e.nameBuf) > keepCap {
		e.nameBuf = nil
	}
}

// own makes name and data survive the chunk.
func (e *pending) own() {
	if e.owned || e.lines == 0 && e.name == nil {
		return
	}
	e.nameBuf = append(e.nameBuf[:0], e.name...)
	e.name = e.nameBuf
	e.ownData()
	e.owned = true
}

func (e *pending) ownData() {
	if e.lines == 1 { // further lines are in dataBuf already
		e.dataBuf = append(e.dataBuf[:0], e.data...)
		e.data = e.dataBuf
	}
}

func (e *pending) addData(value []byte) {
	if e.lines == 0 {
		e.data, e.owned = value, false
	} else {
		if !e.owned {
			e.ownData()
		}
		e.dataBuf = append(append(e.dataBuf, '\n'), value...)
		e.data = e.dataBuf
	}
	e.lines++
}

var dataField = []byte("data:")

// field reads one line that is not blank.
func (s *Parser) field(line []byte) {
	if bytes.HasPrefix(line, dataField) {
		s.size += len(line)
		s.ev.addData(trimSpace(line[len(dataField):]))
		return
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	switch string(name) {
	case "": // a comment
		return
	case "data":
		s.ev.addData(trimSpace(value))
	case "event":
		s.ev.name, s.ev.owned = trimSpace(value), false
	case "id", "retry": // for the client's reconnect; dispatch does not depend on them
		if s.Reconnect != nil {
			s.Reconnect(string(name), trimSpace(value))
		}
	default:
		if s.Stray != nil {
			s.Stray(line)
		}
		return
	}
	s.size += len(line)
}

// trimSpace drops the one space that may follow a colon.
func trimSpace(v []byte) []byte {
	if len(v) > 0 && v[0] == ' ' {
		return v[1:]
	}
	return v
}
