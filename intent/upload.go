package intent

import (
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// TriggerUpload is the trigger of a job out of a file of many, or begins it. It stays with the job, so that whoever settles it knows how long its
// key is needed: a worker, a late answer, a reconciler or a person.
const TriggerUpload = "upload"

// UploadKept is how long at least the key of a job out of a file is kept when it has ended, whatever the policy's ttl: an upload
// that broke off in the night is gone on with the next morning.
const UploadKept = 24 * time.Hour

// KeyKept is how long an operation whose end is kept holds its key from then on, by the ttl of its policy.
func KeyKept(head *ledger.Intent, ttl time.Duration) time.Duration {
	if head.JobID != "" && strings.HasPrefix(head.Trigger, TriggerUpload) && !mutant.On("upload-key-expires") {
		return max(ttl, UploadKept)
	}
	return ttl
}
