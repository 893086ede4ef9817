package gateway

import (
	"strings"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// beginsAt names in Intent.Trigger the tier that a job begins at, where its request keeps no contract with those before. What bars the
// others must not hold it back, and only its body would say so, which is not read for each look at a line. It is about the schedule alone:
// where a pass goes is decided anew.
const beginsAt = "begins:"

// beginning adds that to the trigger of a job.
func (c *call) beginning(trigger string) string {
	if c.course == nil || !c.course.several() || mutant.On("job-waits-for-a-tier-it-cannot-use") {
		return trigger
	}
	d := c.starts()
	if tier := approvable(&d); c.course.index(tier) > 0 {
		return strings.TrimPrefix(trigger+" "+beginsAt+tier, " ")
	}
	return trigger
}

// beginsIn is the tier that a job of this head begins at; "" for the first, and where a person has chosen its route.
func beginsIn(head *ledger.Intent) string {
	if overrideIn(head) != "" {
		return ""
	}
	_, tier, _ := strings.Cut(head.Trigger, beginsAt)
	return tier
}
