"""The Chinese translations of all errors of the package, and of those that the service reports most."""

from __future__ import annotations

ERRORS: tuple[tuple[str, str], ...] = (
    (
        "This job needs {0} CNY, and the account has {1} CNY available; the operator of the service can add"
        " credit.",
        "这个任务需要 {0} 元，账户可用余额为 {1} 元；服务的运营者可以充值。",
    ),
    ("There is nothing under this id.", "没有这个编号的东西。"),
    (
        "The API key is missing, wrong, expired or revoked; send `Authorization: Bearer tn_…`.",
        "密钥缺失、错误、已过期或已吊销。",
    ),
    (
        "This API key may not use the model; GET /v1/models lists the models that it may use.",
        "这个密钥不能使用这个模型。",
    ),
    ("The content was erased; the record stays.", "内容已被清除，只留下记录。"),
    ("Too many requests; wait as long as Retry-After says.", "请求过于频繁，请稍后再试。"),
    (
        "The model is temporarily unavailable; GET /v1/models shows `callable`. Nothing was stored.",
        "模型暂时不可用；什么也没有存下。",
    ),
    (
        "The service cannot answer just now; nothing was stored, send the same request again.",
        "服务暂时无法回答；什么也没有存下，请重试。",
    ),
    ("{0} did not answer: {1}", "{0} 没有回答：{1}"),
    ("connection refused", "连接被拒绝"),
    ("connection reset by peer", "连接被对方断开"),
    ("broken pipe", "连接被对方断开"),
    ("network is unreachable", "网络不可达"),
    ("no route to host", "没有到主机的路由"),
    ("name or service not known", "找不到这个主机名"),
    ("temporary failure in name resolution", "暂时无法解析主机名"),
    ("no connection in time", "连接超时"),
    ("no answer in time", "等待超时"),
    ("the answer was cut off", "回答中断"),
    ("it is not an HTTP server", "对方不使用 HTTP"),
    (
        "it does not speak TLS: should the address begin with http://?",
        "对方不使用 TLS：地址是否应为 http://？",
    ),
    ("its certificate is not trusted: {0}", "证书不可信：{0}"),
    ("No space left on device", "磁盘空间不足"),
    ("Disk quota exceeded", "磁盘配额已用完"),
    ("Permission denied", "没有权限"),
    ("Read-only file system", "文件系统只读"),
    ("No such file or directory", "没有这个文件"),
    ("Is a directory", "这是文件夹"),
    ("Not a directory", "这不是文件夹"),
    ("File too large", "文件太大"),
    ("File name too long", "文件名太长"),
    (
        "the service answered {0} without Tenuto's error format: is this a Tenuto service?",
        "对方回答 {0}，不是 Tenuto 的错误格式：这是 Tenuto 服务吗？",
    ),
    ("the service answered {0}", "服务回答 {0}"),
    (
        "the answer is not JSON: is this the address of a Tenuto service?",
        "回答不是 JSON：这个地址是 Tenuto 服务的吗？",
    ),
    ("no key for {0}: run `tenuto login` or set {1}", "没有 {0} 的密钥：请运行 `tenuto login` 或设置 {1}"),
    ("several services of yours run here: {0}", "您有几个服务在这里运行：{0}"),
    ("a service of yours runs at {0}", "您的一个服务在 {0} 运行"),
    ("no service of yours runs on this machine", "您没有服务在这台机器上运行"),
    ("no service runs at {0}", "{0} 没有服务在运行"),
    (
        "no key was given; the studio or `tenuto admin keys create` makes one",
        "没有给出密钥；可在网页或用 `tenuto admin keys create` 创建",
    ),
    ("{0} is for another service, and no key is saved for {1}", "{0} 属于另一个服务，而没有保存 {1} 的密钥"),
    ("a text contains {0}, which cannot be written in UTF-8", "文字含有 {0}，UTF-8 无法表示"),
    ("{0} is not a base address; one looks like {1}", "{0} 不是服务地址；应写成 {1} 的样子"),
    (
        "this is not an API key: a key is one ASCII word that begins with tn_",
        "这不是 API 密钥：密钥是以 tn_ 开头的一串 ASCII 字符",
    ),
    (
        "{0} cannot be read: {1}; remove it and run `tenuto login`",
        "{0} 无法读取：{1}；请删除它，再运行 `tenuto login`",
    ),
    (
        "{0} was not written by `tenuto login`; remove it and log in again",
        "{0} 不是 `tenuto login` 所写的；请删除它，再登录一次",
    ),
    (
        "timeout must be above 0 seconds, and max_retries at least 0",
        "timeout 要大于 0 秒，max_retries 不小于 0",
    ),
    (
        "an idempotency key has 1 to 255 printable ASCII characters",
        "幂等键是 1 到 255 个可打印的 ASCII 字符",
    ),
    ("no {0} model takes work from this key now ({1})", "现在没有 {0} 模型接受这个密钥的任务（{1}）"),
    ("it sees none", "看不到任何一个"),
    ("{0} is still {1} after {2} s", "{0} 在 {2} 秒后仍是 {1}"),
    ("{0} failed: the service gave no reason", "{0} 失败：服务没有说明原因"),
    ("{0} failed: {1}", "{0} 失败：{1}"),
    ("{0} was cancelled", "{0} 已取消"),
    (
        "{0} needs the operator: whether it was done or charged is not known; keep the id and do not "
        "submit the work again",
        "{0} 需要运营者处理：是否已完成、是否扣费尚不清楚；请保留编号，不要重新提交",
    ),
    (
        "{0} is in state {1}, which this version does not know; keep the id and do not submit the work again",
        "{0} 的状态是 {1}，本版本不认识；请保留编号，不要重新提交",
    ),
    (
        "{0} succeeded without a result; report this with its id",
        "{0} 已完成却没有结果；请连同编号告知运营者",
    ),
    ("the result of {0} is {1}, not {2}", "{0} 的结果是 {1}，而不是 {2}"),
    ("{0} did not match its checksum, {1} times: {2}", "{0} 有 {1} 次校验不符：{2}"),
    ("it is {0}, not {1}", "它是 {0}，而不是 {1}"),
    ("it has {0} bytes, not {1}", "它有 {0} 字节，而不是 {1}"),
    ("its SHA-256 is different", "它的 SHA-256 不同"),
    ("{0} does not have the size and hash of the upload", "{0} 的大小或哈希与上传的不同"),
    (
        "the same work was sent to {0} with another API key, and it is not known whether it arrived; sent with "
        "this key, it could be done and charged twice",
        "同样的工作曾用另一个密钥发给 {0}，是否送达尚不清楚；用这个密钥再发，可能做两次、扣两次费",
    ),
    (
        "the upload was interrupted and the recording is no longer available; send it again",
        "上传中断，录音已不可用；请重新发送",
    ),
    (
        "the journal {0} cannot be written ({1}), so nothing was sent; free some space, or set "
        "TENUTO_JOURNAL to another folder",
        "日志 {0} 无法写入（{1}），因此什么也没有发送；请腾出空间，或用 TENUTO_JOURNAL 指定另一个文件夹",
    ),
    ("the journal {0} cannot be written ({1}); free some space", "日志 {0} 无法写入（{1}）；请腾出空间"),
    (
        "{0} was accepted, but {1}, and the same call gets the same job",
        "{0} 已被接受，但{1}，之后同样的调用会得到同一个任务",
    ),
    ("the answer was cut off: {0}", "回答中断：{0}"),
    ("the answer was cut off; send the request again", "回答没有结束就中断了；请重新发送"),
    ("the answer is not a chat completion", "回答不是对话结果"),
    ("the chat completion has no choices", "对话结果是空的"),
    ("an event of the stream is not JSON", "流中的一个事件不是 JSON"),
    ("an event of the stream is not a part of a chat completion", "流中的一个事件不是聊天回答的一部分"),
    ("a {0} should be a JSON object", "{0} 应是 JSON 对象"),
    ("a {0} without {1}", "{0} 缺少 {1}"),
    ("{0} did not answer with a list", "{0} 的回答不是列表"),
    (
        "{0} lasts {1} minutes; the service takes 120. Cut it into parts with tenuto_client.audio.split",
        "{0} 长 {1} 分钟；服务最多接受 120 分钟。请用 tenuto_client.audio.split 切成几段",
    ),
    (
        "parts overlap by 5 to 10 seconds and last 40 seconds or longer",
        "各段重叠 5 到 10 秒，每段至少 40 秒",
    ),
    (
        "{0} cannot be read as audio ({1}); with ffmpeg on the PATH, more formats work",
        "{0} 无法作为音频读取（{1}）；PATH 中有 ffmpeg 时支持更多格式",
    ),
    ("{0} cannot be read as audio ({1})", "{0} 无法作为音频读取（{1}）"),
    ("Format not recognised", "格式无法识别"),
    (
        "a batch has at most {0} lines; write the others to a second file",
        "一个批次最多 {0} 行；其余的请写到另一个文件",
    ),
    ("there are no lines in this batch", "这个批次里一行也没有"),
    ("{0} is neither a .csv nor a .jsonl file", "{0} 既不是 .csv 也不是 .jsonl 文件"),
    ("{0} is larger than {1} MiB; write it as several files", "{0} 超过 {1} MiB；请分成几个文件"),
    ("{0} is not UTF-8 text in line {1}; save it as UTF-8", "{0} 第 {1} 行不是 UTF-8 文字；请存为 UTF-8"),
    (
        "{0} needs a first line that names its columns: id, one of text, prompt and file, and any parameters",
        "{0} 的第一行应写明各列：id，text、prompt、file 三者之一，以及任意参数",
    ),
    ("{0} has a column twice: {1}", "{0} 有重复的列：{1}"),
    ("{0} is not CSV in line {1}: {2}", "{0} 第 {1} 行不是 CSV：{2}"),
    ("line {0}: the id {1} is already used in line {2}", "第 {0} 行：编号 {1} 已用于第 {2} 行"),
    ("has more cells than columns: {0}", "单元格比列多：{0}"),
    ("is not JSON: {0}", "不是 JSON：{0}"),
    ("is not a JSON object", "不是 JSON 对象"),
    (
        "needs exactly one of text, prompt and file, and has {0}",
        "text、prompt、file 应恰好有一个，而这里有 {0} 个",
    ),
    ("has no id; give it one, which also names its file", "没有 id；请给它一个，结果文件也以此命名"),
    ("the id {0} cannot name a file: {1}", "编号 {0} 不能作文件名：{1}"),
    ("too many files are named {0}, {1} and so on", "名为 {0}、{1} 等的文件太多"),
    ("{0} must be text, not {1}", "{0} 应是文字，不能是 {1}"),
    ("{0} must be true or false, not {1}", "{0} 应是 true 或 false，不能是 {1}"),
    ("{0} must be a whole number, not {1}", "{0} 应是整数，不能是 {1}"),
    ("{0} must be a number, not {1}", "{0} 应是数字，不能是 {1}"),
    ("{0} must be a JSON array, not {1}", "{0} 应是 JSON 数组，不能是 {1}"),
    ("{0} is not a format of results; choose from {1}", "{0} 不是结果的格式；可选 {1}"),
    (
        "M4A needs ffmpeg on the PATH; mp3, opus and flac do not",
        "M4A 需要 PATH 中有 ffmpeg；mp3、opus、flac 不需要",
    ),
    ("its name is too long or not text; rename it", "文件名太长或不是文字；请改名"),
    ("it cannot be read as UTF-8 text: {0}", "无法作为 UTF-8 文字读取：{0}"),
    ("ffmpeg cannot write M4A: {0}", "ffmpeg 无法写出 M4A：{0}"),
    ("in_flight must be a number from 1 to {0}", "in_flight 应是 1 到 {0} 的数字"),
    (
        "the batch in {0} was sent to {1}, not to {2}; use that address, or another folder for a new batch",
        "{0} 里的批次发往 {1}，而不是 {2}；请用那个地址，或为新批次另选文件夹",
    ),
    (
        "another program works on the batch in {0}; wait for it, or use another folder",
        "另一个程序正在处理 {0} 里的批次；请等它结束，或另选文件夹",
    ),
    (
        "it was sent with another API key, and it is not known whether it arrived; run the batch with that key "
        "again",
        "它曾用另一个密钥发送，是否送达尚不清楚；请用那个密钥再运行这个批次",
    ),
    (
        "{0} is not read: it is cut off or damaged: {1}. {2} s of it can be read; to use those, write them to a new file, "
        "as with `ffmpeg -i FILE NEW.flac`",
        "{0}：文件被截断或已损坏（{1}），能读出 {2} 秒。要使用这一部分，请先另存为新文件，"
        "例如用 `ffmpeg -i FILE NEW.flac`",
    ),
    (
        "{0} is not read: it is damaged or cut off: {1}; it holds no sound that can be read",
        "{0}：文件已损坏或被截断（{1}），读不出声音",
    ),
    (
        "{0} is not read: nothing tells whether a file of its format is whole; if it is, write it to a new file, as with "
        "`ffmpeg -i FILE NEW.flac`",
        "{0} 没有读取：这种格式的文件无法确定是否完整；如果它是完整的，请把它写入一个新文件，例如 `ffmpeg -i FILE NEW.flac`",
    ),
    ("{0} is not read: {1}", "{0} 没有读取：{1}"),
    ("{0} contains no audio", "{0} 没有声音"),
    ("{0} cannot be read, not even by ffmpeg: {1}", "{0} 无法读取，ffmpeg 也不行：{1}"),
    ("{0} cannot be read: {1}", "{0} 无法读取：{1}"),
    ("{0}: no such file", "{0}：没有这个文件"),
    ("{0} is not a regular file", "{0} 不是普通文件"),
    (
        "converting recordings needs soundfile and soxr; without them, pass a 16-bit mono FLAC at 16 kHz",
        "转换录音需要 soundfile 和 soxr；没有它们时请提供 16 kHz、单声道、16 位的 FLAC",
    ),
)
"""By English pattern; {0}, {1} stand for values. Specific patterns come before general ones. Of the service's
own messages, the most frequent are translated; the others follow a headline."""
