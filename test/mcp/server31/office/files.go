package office

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// writing is how long a file's content takes to reach its temporary file.
const writing = 40 * time.Millisecond

// files is a shared drive.
type files struct {
	mu      sync.Mutex
	folders map[string]bool
	content map[string]string
}

func newFiles() *files {
	return &files{folders: map[string]bool{"/contracts": true}, content: map[string]string{"/contracts/readme.txt": "Signed copies only."}}
}

func (*files) name() string { return "files" }

func (f *files) snapshot() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return frozen(map[string]any{"folders": f.folders, "content": f.content})
}

type folder struct {
	Path string `json:"path" jsonschema:"Absolute path" pattern:"^(/[a-z0-9._-]+)+$" len:"200" example:"/reports"`
}

type file struct {
	Path string `json:"path" jsonschema:"Absolute path" pattern:"^(/[a-z0-9._-]+)+$" len:"200" example:"/contracts/lease.txt"`
	Text string `json:"text" jsonschema:"The whole content" len:"20000" example:"The lease ends in May."`
}

type filePath struct {
	Path string `json:"path" jsonschema:"Absolute path, as file_list names it" pattern:"^(/[a-z0-9._-]+)+$" len:"200" example:"/contracts/readme.txt"`
}

type fileSaved struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

type fileList struct {
	Folders []string `json:"folders"`
	Files   []string `json:"files"`
}

func (f *files) register(m *mcp.Server) {
	addTool(m, describe[folder]("folder_create", "Create folder", "Create a folder.", adds), f.createFolder)
	addTool(m, describe[file]("file_save", "Save file", "Write a file whole, replacing what it held.", puts), f.save)
	addTool(m, describe[none]("file_list", "List files", "All folders and files.", reads), f.list)
	addTool(m, describe[filePath]("file_read", "Read file", "The content of a file.", reads), f.read)
}

// createFolder is at fault: what a repeat asks for is there, and it says so as a failure.
func (f *files) createFolder(_ context.Context, in folder) (folder, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.folders[in.Path] {
		return folder{}, fmt.Errorf("folder %q already exists", in.Path)
	}
	f.folders[in.Path] = true
	return in, nil
}

// save is at fault when two write the same file at once. Both write one temporary file; the first moves it into place,
// and the second removes that file to make room for a temporary one that is gone.
func (f *files) save(_ context.Context, in file) (fileSaved, error) {
	temporary := in.Path + "~"
	f.mu.Lock()
	f.content[temporary] = in.Text
	f.mu.Unlock()

	time.Sleep(writing)

	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.content, in.Path)
	if text, ok := f.content[temporary]; ok {
		f.content[in.Path] = text
		delete(f.content, temporary)
	}
	return fileSaved{in.Path, len(in.Text)}, nil
}

func (f *files) list(context.Context, none) (fileList, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fileList{copied(slices.Sorted(maps.Keys(f.folders))), copied(slices.Sorted(maps.Keys(f.content)))}, nil
}

func (f *files) read(_ context.Context, in filePath) (file, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, ok := f.content[in.Path]
	if !ok {
		return file{}, unknown("file", in.Path, "file_list")
	}
	return file{in.Path, text}, nil
}
