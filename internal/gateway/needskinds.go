package gateway

// What the three APIs have in a request beside text, by the unions of their own SDKs: openai-go v3 (ChatCompletionContentPartUnionParam,
// ResponseInputItemUnionParam, ToolUnionParam), anthropic-sdk-go (BetaContentBlockParamUnion) and google.golang.org/genai (Part, Tool,
// GenerationConfig). Servers that speak one of them have some of their own.

// medium is what an item or a part is made of.
type medium uint8

const (
	ofText medium = iota
	ofImage
	ofAudio
	ofVideo
	ofFile
	isHeld   // only the provider that wrote it can read it, or has what it names
	isSealed // … where it has one of seals
	byMIME
	ofTool // what a tool says
)

// seals are members by which a part of a history is for its writer's eyes alone: Anthropic's signed thoughts, OpenAI's reasoning by its id.
var seals = []string{"signature", "id", "encrypted_content"}

// partKinds are types of content parts.
var partKinds = map[string]medium{
	"": ofText, "text": ofText, "input_text": ofText, "output_text": ofText, "refusal": ofText, "reasoning_text": ofText, "summary_text": ofText,
	"tool_use": ofText, "tool_result": ofText,
	"thinking": isSealed, "redacted_thinking": isHeld,

	"image_url": ofImage, "input_image": ofImage, "image": ofImage,
	"input_audio": ofAudio, "audio": ofAudio, "audio_url": ofAudio,
	"video_url": ofVideo, "input_video": ofVideo, "video": ofVideo,
	"file": ofFile, "input_file": ofFile, "document": ofFile, "document_url": ofFile, "search_result": ofFile,

	"server_tool_use": isHeld, "web_search_tool_result": isHeld, "web_fetch_tool_result": isHeld, "advisor_tool_result": isHeld,
	"code_execution_tool_result": isHeld, "bash_code_execution_tool_result": isHeld, "text_editor_code_execution_tool_result": isHeld,
	"tool_search_tool_result": isHeld, "tool_reference": isHeld, "mcp_tool_use": isHeld, "mcp_tool_result": isHeld, "mcp_tool_listing": isHeld,
	"container_upload": isHeld, "compaction": isHeld,
}

// itemKinds are types of a conversation's items.
var itemKinds = map[string]medium{
	"": ofText, "message": ofText, "function_call": ofText, "function_call_output": ofText, "custom_tool_call": ofText, "custom_tool_call_output": ofText,
	"reasoning": isSealed,

	"item_reference": isHeld, "compaction": isHeld, "compaction_trigger": isHeld, "additional_tools": isHeld, "configuration_update": isHeld,
	"file_search_call": isHeld, "web_search_call": isHeld, "computer_call": isHeld, "computer_call_output": isHeld, "code_interpreter_call": isHeld,
	"image_generation_call": isHeld, "tool_search_call": isHeld, "tool_search_output": isHeld, "local_shell_call": isHeld,
	"local_shell_call_output": isHeld, "shell_call": isHeld, "shell_call_output": isHeld, "apply_patch_call": isHeld, "apply_patch_call_output": isHeld,
	"mcp_list_tools": isHeld, "mcp_approval_request": isHeld, "mcp_approval_response": isHeld, "mcp_call": isHeld, "program": isHeld, "program_output": isHeld,
}

// partMembers are the members of Gemini's parts.
var partMembers = map[string]medium{
	"text": ofText, "thought": ofText, "thoughtSignature": ofText, "thought_signature": ofText, "functionCall": ofText, "function_call": ofText,
	"functionResponse": ofTool, "function_response": ofTool, "mediaResolution": ofText, "media_resolution": ofText, "partMetadata": ofText, "part_metadata": ofText,
	"inlineData": byMIME, "inline_data": byMIME, "fileData": byMIME, "file_data": byMIME,
	"videoMetadata": ofVideo, "video_metadata": ofVideo,
	"executableCode": isHeld, "executable_code": isHeld, "codeExecutionResult": isHeld, "code_execution_result": isHeld,
	"toolCall": isHeld, "tool_call": isHeld, "toolResponse": isHeld, "tool_response": isHeld,
}

// mediaTypes are top-level media types that are no files.
var mediaTypes = map[string]medium{"image": ofImage, "audio": ofAudio, "video": ofVideo}

// heldFields name what a provider keeps for a request, or has sealed for itself: no other has it, or can read it.
var heldFields = map[string]bool{"previous_response_id": true, "conversation": true, "file_id": true, "fileUri": true, "file_uri": true,
	"thoughtSignature": true, "thought_signature": true, "encrypted_content": true, "cachedContent": true, "cached_content": true,
	"container": true, "fallback_credit_token": true}

// keptMembers are members of a turn that hold what was sealed, or is kept by its id, without a type that says so.
var keptMembers = map[string]bool{"audio": true, "reasoning_details": true}

// runs are members of a request by which the provider does something beside answering: searches, calls, edits of the history.
var runs = map[string]bool{"mcp_servers": true, "web_search_options": true, "search_parameters": true, "plugins": true, "skills": true,
	"context_management": true, "compaction": true, "fallbacks": true}

// schemaMembers are members by which servers that speak OpenAI's format have an answer kept to a form.
var schemaMembers = map[string]bool{"guided_json": true, "guided_regex": true, "guided_grammar": true, "guided_choice": true, "structured_outputs": true,
	"json_schema": true, "grammar": true}

// arguments hold what a model wrote for a tool, what tools say, and what is the caller's own: members of any name.
var arguments = map[string]bool{"input": true, "arguments": true, "args": true, "functionCall": true, "function_call": true, "functionResponse": true,
	"function_response": true, "metadata": true, "labels": true, "partMetadata": true, "part_metadata": true}
