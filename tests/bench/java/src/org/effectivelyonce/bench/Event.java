package org.effectivelyonce.bench;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.errors.SerializationException;

/**
 * What a program needs of a record, and the record itself where it is published again.
 *
 * <p>Fields are public, and there is a constructor without arguments: Flink then serializes it as a POJO. The whole
 * record is parsed all the same: one that is no JSON stops the run. What was taken out is given a value, as a POJO's
 * fields may not be null on the way to another task.
 */
public final class Event {
  private static final JsonFactory JSON = new JsonFactory();
  private static final byte[] NOTHING = {};

  public String id = "";
  public String user = "";
  public long timeMs = -1;
  public byte[] record = NOTHING;

  public Event() {}

  /** Parses a record, and keeps it if it is to be published. */
  static Event parsed(byte[] record, boolean kept) {
    Event event = new Event();
    try (JsonParser parser = JSON.createParser(record)) {
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        throw new SerializationException("a record is not a JSON object");
      }
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String field = parser.currentName();
        parser.nextToken();
        switch (field) {
          case "id" -> event.id = parser.getText();
          case "user" -> event.user = parser.getText();
          case "event_time_ms" -> event.timeMs = parser.getLongValue();
          default -> parser.skipChildren();
        }
      }
    } catch (IOException error) {
      throw new SerializationException("a record is not JSON", error);
    }
    if (event.id.isEmpty() || event.user.isEmpty() || event.timeMs < 0) {
      throw new SerializationException("a record has no id, no user or no event_time_ms");
    }
    if (kept) {
      event.record = record;
    }
    return event;
  }

  /** What a count needs of it: less goes to the next task. */
  Event counted() {
    Event event = new Event();
    event.user = user;
    event.timeMs = timeMs;
    return event;
  }

  /** The record as it came, or, where that was not kept, a shorter one that is parsed alike. */
  byte[] written() {
    return record.length > 0
        ? record
        : bytes("{\"id\":\"" + id + "\",\"user\":\"" + user + "\",\"event_time_ms\":" + timeMs + "}");
  }

  /** Writes a count as JSON. Ids and users of this benchmark need no escaping. */
  static String line(String user, long startMs, long count) {
    return "{\"user\":\"" + user + "\",\"window_start_ms\":" + startMs + ",\"count\":" + count + "}";
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
