package office

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	checking = 40 * time.Millisecond // between the look for a message and its insertion
	joining  = 30 * time.Millisecond // between reading a channel's members and writing them back
)

// chat keeps channels.
type chat struct {
	mu       sync.Mutex
	channels map[string]*channel
}

type channel struct {
	Members  []string  `json:"members"`
	Messages []message `json:"messages"`
}

type message struct {
	ClientID string `json:"client_message_id" jsonschema:"Chosen by the client; a message with the same one is posted once" len:"64" example:"m-5501"`
	Channel  string `json:"channel" jsonschema:"Where to" enum:"general|random"`
	Text     string `json:"text" jsonschema:"What is said" len:"2000" example:"The samples have arrived."`
}

func newChat() *chat {
	return &chat{channels: map[string]*channel{
		"general": {Members: []string{"ana", "bo"}, Messages: []message{{"m-1", "general", "Good morning."}}},
		"random":  {Members: []string{"cem"}, Messages: []message{}},
	}}
}

func (*chat) name() string { return "chat" }

func (c *chat) snapshot() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return frozen(c.channels)
}

type memberAdd struct {
	Channel string `json:"channel" jsonschema:"Which channel" enum:"general|random"`
	Member  string `json:"member" jsonschema:"Who joins" pattern:"^[a-z]+$" len:"40" example:"dana"`
}

type channelGet struct {
	Channel string `json:"channel" jsonschema:"Which channel" enum:"general|random"`
}

func (c *chat) register(m *mcp.Server) {
	addTool(m, describe[message]("chat_message_post", "Post message", "Post a message to a channel.", puts), c.post)
	addTool(m, describe[memberAdd]("channel_add_member", "Add member", "Add a member to a channel. Members that it has already stay.", puts), c.join)
	addTool(m, describe[channelGet]("channel_get", "Get channel", "The members and messages of a channel.", reads), c.get)
}

// post is at fault for calls at once: each looks before the other has written.
func (c *chat) post(_ context.Context, in message) (message, error) {
	c.mu.Lock()
	posted := slices.ContainsFunc(c.channels[in.Channel].Messages, func(m message) bool { return m.ClientID == in.ClientID })
	c.mu.Unlock()
	if posted {
		return in, nil
	}
	time.Sleep(checking)

	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.channels[in.Channel]
	ch.Messages = append(ch.Messages, in)
	return in, nil
}

// join is at fault for two members at once: the second to write back had not read the first.
func (c *chat) join(_ context.Context, in memberAdd) (memberAdd, error) {
	c.mu.Lock()
	members := slices.Clone(c.channels[in.Channel].Members)
	c.mu.Unlock()
	if !slices.Contains(members, in.Member) {
		members = append(members, in.Member)
	}
	time.Sleep(joining)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.channels[in.Channel].Members = members
	return in, nil
}

func (c *chat) get(_ context.Context, in channelGet) (channel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.channels[in.Channel]
	return channel{copied(ch.Members), copied(ch.Messages)}, nil
}
