package gateway

import "bytes"

// measured counts the bytes of a body but for files that stand in it as text, and those files.
func measured(body []byte) (text, files int64) {
	start := -1
	flush := func(end int) {
		if start < 0 {
			return
		}
		if end-start >= inlined && isFile(body, start, end) {
			files++
		} else {
			text += int64(end - start)
		}
		start = -1
	}
	for i, b := range body {
		if isBase64(b) || b == '\\' && i+1 < len(body) && body[i+1] == '/' { // PHP escapes it
			if start < 0 {
				start = i
			}
			continue
		}
		flush(i)
		text++
	}
	flush(len(body))
	return text, files
}

func isBase64(b byte) bool {
	return b == '+' || b == '/' || b == '=' || b == '-' || b == '_' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}

// fileMembers hold files as data: URLs; of them dataMembers hold them as bare base64, too, beside what they are.
var (
	fileMembers = map[string]bool{"url": true, "image_url": true, "audio_url": true, "video_url": true, "file_url": true, "file_data": true, "data": true}
	dataMembers = map[string]bool{"file_data": true, "data": true}
	dataTypes   = [][]byte{[]byte(`"media_type"`), []byte(`"mimeType"`), []byte(`"mime_type"`), []byte(`"format"`), []byte(`"filename"`)}
)

// around is how far before and behind a file its name and type are looked for.
const around = 512

// isFile reports whether a run of base64's characters is a file by where it stands: a text may have such runs as well, and is read
// byte by byte.
func isFile(body []byte, start, end int) bool {
	head := body[max(0, start-around):start]
	quote := bytes.LastIndexByte(head, '"')
	if quote < 0 || quote > 0 && head[quote-1] == '\\' {
		return false
	}
	before, scheme := head[:quote], head[quote+1:]
	name := memberBefore(before)
	if len(scheme) > 0 {
		return fileMembers[name] && bytes.HasPrefix(scheme, []byte("data:")) && bytes.HasSuffix(scheme, []byte(";base64,"))
	}
	return dataMembers[name] && saysType(before, body[end:min(len(body), end+around)])
}

// memberBefore is the name of the member whose value begins behind head; "" where none does.
func memberBefore(head []byte) string {
	const blanks = " \t\r\n"
	head, isValue := bytes.CutSuffix(bytes.TrimRight(head, blanks), []byte(":"))
	head, isNamed := bytes.CutSuffix(bytes.TrimRight(head, blanks), []byte(`"`))
	if !isValue || !isNamed {
		return ""
	}
	return string(head[bytes.LastIndexByte(head, '"')+1:])
}

// saysType looks into the rest of the object for what a file is. A document of plain text is none.
func saysType(before, behind []byte) bool {
	before = before[bytes.LastIndexByte(before, '{')+1:]
	if i := bytes.IndexByte(behind, '}'); i >= 0 {
		behind = behind[:i]
	}
	if bytes.Contains(before, []byte(`"text/`)) || bytes.Contains(behind, []byte(`"text/`)) {
		return false
	}
	for _, name := range dataTypes {
		if bytes.Contains(before, name) || bytes.Contains(behind, name) {
			return true
		}
	}
	return false
}
