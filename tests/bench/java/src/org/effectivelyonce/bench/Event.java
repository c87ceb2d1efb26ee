package org.effectivelyonce.bench;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import org.apache.kafka.common.errors.SerializationException;

/** What the count needs of a record. The whole record is parsed all the same: one that is no JSON stops the run. */
public record Event(String user, long timeMs) {
  private static final JsonFactory JSON = new JsonFactory();

  static Event parsed(byte[] record) {
    String user = null;
    long timeMs = -1;
    try (JsonParser parser = JSON.createParser(record)) {
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        throw new SerializationException("a record is not a JSON object");
      }
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String field = parser.currentName();
        parser.nextToken();
        switch (field) {
          case "user" -> user = parser.getText();
          case "event_time_ms" -> timeMs = parser.getLongValue();
          default -> parser.skipChildren();
        }
      }
    } catch (IOException error) {
      throw new SerializationException("a record is not JSON", error);
    }
    if (user == null || timeMs < 0) {
      throw new SerializationException("a record has no user or no event_time_ms");
    }
    return new Event(user, timeMs);
  }
}
